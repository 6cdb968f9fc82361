"""What learns weights: frozen dataset in, checkpoint out. docs/training.md says what it does and what it refuses."""
