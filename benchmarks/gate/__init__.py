"""What the gate decides on evaluations whose truth is known, and how fast."""
