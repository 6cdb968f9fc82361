"""What an agent acts on: the environment contract, its HTTP client, and our simulated sites."""
