"""Small sites of obstacles: a site is drawn from a seed by a grammar, and recovery was not written beside any of them."""
