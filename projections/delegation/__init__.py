"""Folds of delegation loops. Those of one loop are keyed by its name; skills and tools by their own."""
