"""Simulated sites: what they share, and one folder for each of them."""
