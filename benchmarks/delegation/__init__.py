"""The delegation loop: a task that one pass does not solve, kills, and hostile models and tools."""
