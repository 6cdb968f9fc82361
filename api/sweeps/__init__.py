"""Plan sweeps, play their jobs, and learn from their runs."""
