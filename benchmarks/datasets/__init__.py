"""Speed and memory of building datasets of token rows from a log."""
