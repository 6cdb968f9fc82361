"""Datasets: frozen from the log, made again in batches, described."""
