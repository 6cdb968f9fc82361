"""Training stages: their processes, events, publication, verification and weights."""
