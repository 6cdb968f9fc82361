"""Connect to environments, probe, admit and lease them."""
