"""A real small model as the policy: sums, its own runs, SFT, GRPO, a matched control, the gate."""
