"""Error rates, power and speed of the gate on simulated evaluations."""
