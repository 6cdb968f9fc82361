"""Environments that are no web sites: they are reset by seed, take actions by name, and reward what was done."""
