"""Training of weights: frozen dataset in, checkpoint out. docs/training.md describes the stages and their checks."""
