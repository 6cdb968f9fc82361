"""The slow loop from demonstrations to a promoted checkpoint, on two sites over HTTP: `make demo-slow`."""
