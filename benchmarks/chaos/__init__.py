"""Fault injection: kills processes, cuts connections, fills a disk, turns back a clock, then verifies the log."""
