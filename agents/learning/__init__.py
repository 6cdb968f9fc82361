"""The fast loop: recovery, rewrites, overlay."""
