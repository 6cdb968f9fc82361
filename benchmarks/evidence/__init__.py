"""Simulates the rules that promote, demote and allocate, in worlds whose truth is known."""
