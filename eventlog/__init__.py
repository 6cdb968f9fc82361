"""The truth: an append-only log of typed events, the only thing that is not derived."""
