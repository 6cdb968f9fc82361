"""Folds about those outside: who is told of what."""
