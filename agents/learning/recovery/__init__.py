"""Recovery: propose plan changes for a failed run after trying them in its own instance."""
