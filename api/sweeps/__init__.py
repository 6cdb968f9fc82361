"""Sweeps: planned, drawn, played by jobs, and read for what they teach."""
