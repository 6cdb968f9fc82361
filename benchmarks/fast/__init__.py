"""Measures the fast loop's promotions: lost outcomes, and promotion rates of useless and of useful candidates."""
