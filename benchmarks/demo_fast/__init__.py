"""Effect of each kind of memory on both of our sites, on held-out instances."""
