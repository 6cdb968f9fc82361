"""Serving: weights in the form that model servers load, and the calls of agents that are not ours."""
