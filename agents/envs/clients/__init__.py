"""Clients of a site: its admin surface, and its pages over plain HTTP."""
