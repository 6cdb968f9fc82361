"""Evaluations: benchmarks, champion and challenger arms, verdicts, and their verification."""
