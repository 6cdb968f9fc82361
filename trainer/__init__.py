"""The place of what learns weights: frozen dataset in, checkpoint out. Its data contract is projections.datasets."""
