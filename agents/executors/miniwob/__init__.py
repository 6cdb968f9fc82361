"""MiniWoB++ tasks: executors of scripts and of plans, and the inspector for recovery."""
