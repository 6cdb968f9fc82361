"""Simulated sites: shared code, and one folder per site."""
