"""Frames: projections over columns, for what is counted by the million."""
