"""The shell around folds: reading the log, keeping tables, rebuilding, and typed views."""
