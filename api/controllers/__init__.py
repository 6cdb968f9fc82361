"""What runs next: the fast and the slow loop, the warm-up and both, each beside its pure reading of the log."""
