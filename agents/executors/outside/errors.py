"""Errors of agents from outside: before any run, those that stop a command, and one that makes a run missing."""

from __future__ import annotations

from eventlog.errors import FlywheelError

from ...envs.errors import EnvironmentFailure


class BadAgent(FlywheelError):
    """The agent {actual!r} cannot be started: {problem}; expected {expected}."""


class AgentChanged(FlywheelError):
    """The agent {agent!r} changed while it was playing: a file that it names has other content; expected one agent for all runs of a sweep and for both arms of an evaluation. Put the file back, or run the command again for the changed agent."""


class WardenNotStarted(EnvironmentFailure):
    """The agent could not be played, because its warden or its fence did not start: {actual}. Expected a first line within {timeout_s:g} s.
    Run `bwrap --dev-bind / / --unshare-pid --proc /proc true`; if it fails, repair or remove bubblewrap, then run the command again. The
    failure does not count against the agent."""
