"""Weights and memory together: the base, what it was trained to, what memory tells it, and both."""
