"""Datasets: freezing them from the log, rebuilding their rows in batches, and dataset cards."""
