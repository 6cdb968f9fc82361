"""Suites: the file format, its checks, the bundled files, and reading a suite out of the log."""
