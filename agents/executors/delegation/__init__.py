"""The shell of delegation loops: models, workers, the sandbox of their tools, and the journal in the log."""
