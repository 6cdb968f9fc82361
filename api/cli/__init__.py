"""The flywheel command, one file for each group of commands."""
