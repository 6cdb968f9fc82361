"""Probes that an environment must pass before it is used for learning or judging."""
