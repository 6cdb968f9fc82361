"""Benchmarks. Each compares its arms within one run and prints a table for people and a JSON line for programs."""
