"""The flywheel command, one module per group of commands."""
