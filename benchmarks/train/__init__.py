"""Cost of training per token on a frozen dataset, against unmodified TRL."""
