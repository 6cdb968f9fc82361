"""Searches for an instruction: by trials of the fast loop, and by another library, at an equal number of runs."""
