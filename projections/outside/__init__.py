"""Folds about receivers outside."""
