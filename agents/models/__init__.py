"""The place of the Model protocol and its backends."""
