"""Calls and jobs: run side by side, kept in a durable queue, with the browser profiles they share."""
