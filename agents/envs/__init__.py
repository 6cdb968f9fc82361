"""Environments that agents act on: the contract, its HTTP client, and the bundled simulated sites."""
