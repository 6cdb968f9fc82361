"""Agents that are not ours: any function or program plays a task as a process of its own, and the oracle grades it."""
