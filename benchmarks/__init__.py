"""Benchmarks: ratios taken in one run, a table for people and one JSON line for programs."""
