"""The fast loop on pages that others made: MiniWoB++ tasks, learned on some seeds and measured on others."""
