"""Serving: weights in the form that model servers load."""
