"""Model calls of agents that are not ours: the capture proxy forwards them and records what was asked and answered."""
