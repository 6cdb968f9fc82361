"""Small sites of obstacles: a seed draws a site by a grammar, and recovery was not written beside any."""
