"""Making datasets of token rows out of a log: how fast, and in how much memory."""
