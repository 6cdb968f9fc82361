"""Errors of agents from outside that are raised before any run, or that stop a command."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class BadAgent(FlywheelError):
    """The agent {actual!r} cannot be started: {problem}; expected {expected}."""


class AgentChanged(FlywheelError):
    """The agent {agent!r} changed while it was playing: a file that it names has other content; expected one agent for all runs of a sweep and for both arms of an evaluation. Put the file back, or run the command again for the changed agent."""
