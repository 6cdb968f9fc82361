"""The outside: the only folder that knows all the others."""
