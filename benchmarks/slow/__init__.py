"""`make demo-slow`: the slow loop from demonstrations to a promoted checkpoint, on two sites over HTTP."""
