"""The place of the iterative-optimization loop."""
