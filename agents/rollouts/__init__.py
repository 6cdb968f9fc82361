"""Rollouts: plan specs from templates and seeds, and play and record each spec as one run."""
