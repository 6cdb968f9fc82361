"""The source of truth: an append-only log of typed events. All other state is derived from it."""
