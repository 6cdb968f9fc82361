"""What the capture proxy costs."""
