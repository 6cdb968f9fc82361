"""Executors: one module for each way of doing a task."""
