"""How fast runs are played on real sites, and what recording them costs."""
