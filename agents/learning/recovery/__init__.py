"""Recovery: from a failed run to changes of its plan that were tried out in its own instance."""
