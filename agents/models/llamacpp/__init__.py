"""Base models and checkpoints in llama.cpp, in this process."""
