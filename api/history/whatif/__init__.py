"""What-if: recompute history under another promotion rule or reward. Nothing is appended."""
