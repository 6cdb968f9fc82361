"""The projection engine: reads the log, maintains and rebuilds the folds' tables, and offers typed views."""
