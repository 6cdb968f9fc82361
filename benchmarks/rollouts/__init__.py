"""Speed of runs on real sites, and the overhead of recording them."""
