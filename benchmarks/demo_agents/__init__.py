"""Lessons in words by themselves: nothing that plays changes but what memory tells it."""
