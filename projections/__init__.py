"""What the log means: pure folds and one shell that keeps them up to date."""
