"""The fast loop on third-party pages: MiniWoB++ tasks, learned on training seeds and measured on held-out seeds."""
