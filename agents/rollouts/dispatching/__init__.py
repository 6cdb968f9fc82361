"""Dispatch of calls and jobs: parallel execution, a durable queue, and the browser profiles of sessions."""
