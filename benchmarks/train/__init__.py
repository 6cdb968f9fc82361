"""Training on a frozen dataset: what a token costs, beside TRL as it comes."""
