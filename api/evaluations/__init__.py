"""Evaluations: benchmarks, both arms, the verdict, and its verification."""
