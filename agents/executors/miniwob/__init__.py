"""MiniWoB++ tasks: the executor, its plans and scripts, and what recovery may look at."""
