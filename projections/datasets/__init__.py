"""Datasets: select the runs of a query, and build their rows. Pure."""
