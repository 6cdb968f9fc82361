"""Errors of runs that another Flywheel plays. Each is a failure of the platform: such a run is missing, never failed."""

from __future__ import annotations

from eventlog.errors import FlywheelError

from ...models.errors import ModelFailure


class RemoteFailure(ModelFailure):
    """{message}."""


class RemoteUnreachable(RemoteFailure):
    """The Flywheel at {url} does not answer: {actual}, at try {tries}. Expected an answer within {timeout_s} s.
    Start `flywheel serve` there, or check FLYWHEEL_REMOTE_URL."""


class RemoteRefused(RemoteFailure):
    """The Flywheel at {url} refused {operation} with status {actual}: {said}. Expected a request that it plays: check the token
    (role operate), that its log has the site admitted, and that its bounds allow the limits that were asked for."""


class RemoteAnswerBroken(RemoteFailure):
    """The Flywheel at {url} answered {operation} with {actual}; expected {expected}. Check that FLYWHEEL_REMOTE_URL is the address
    of `flywheel serve`, and that its version is this one."""


class RemoteRunLost(RemoteFailure):
    """The Flywheel at {url} did not play the run {run} to its end: it is {status}, {actual}. Expected a graded run;
    mend the reason there, then play the run again."""


class RemoteRunLate(RemoteFailure):
    """The run {run} at the Flywheel {url} is {status} after {actual} s: expected its end. It was called off.
    Start `flywheel worker --site {site} --executor policy` there, or raise FLYWHEEL_REMOTE_MINUTES."""


class RemotePlayedOtherwise(RemoteFailure):
    """The Flywheel at {url} played the run {run} with {actual}: expected {expected}. Point its champion to the base without memory,
    and publish the checkpoint where FLYWHEEL_REMOTE_STORE says."""


class RemoteStopped(FlywheelError):
    """The run {run} was called off at the Flywheel {url}, because the command was interrupted. It is played when the same command
    is run again."""
