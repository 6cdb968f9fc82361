"""Controllers of the fast loop, the slow loop, both in sequence, and the warm-up. `*_next` modules decide, purely."""
