"""Processes killed, connections cut, disks filled, clocks turned back; then the log is held to its word."""
