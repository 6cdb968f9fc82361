"""One file for each way of doing a task."""
