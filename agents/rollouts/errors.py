"""Errors of planning, playing, recording and grading rollouts."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class UnknownTemplate(FlywheelError):
    """No plan is known for the task {actual!r}: expected one of {expected}."""


class BenchmarkInstance(FlywheelError):
    """The sweep {sweep} would run task {task} of {environment} at seed {actual}, which is reserved for
    benchmarks: expected seeds outside of benchmarks and their ranges. Choose others, such as those below 9000."""

    is_usage = True


class BadSweep(FlywheelError):
    """The sweep {sweep} has {actual}: expected {expected}."""


class KeyTaken(FlywheelError):
    """The append key {key} was used in the stream {actual}, expected {expected}: the run cannot be recorded.
    Find the event with `flywheel log tail`; only the runner may use a run's append keys."""


class StartedOtherwise(FlywheelError):
    """The run {run} was started with {actual}: expected {expected}. Play it with the code and the executor that it was
    started with; otherwise the controller of its site records it as missing."""


class UnknownVerifier(FlywheelError):
    """No verifier has the version {actual!r}: expected one of {expected}."""


class CannotGrade(FlywheelError):
    """The run {run} cannot be graded again: {actual}; expected a recorded end state of a built-in site, or one that the
    oracle of its environment graded."""


class PlanRefused(FlywheelError):
    """The model {model} made no executable plan of the text: {actual}; expected {expected}.
    Describe the steps more plainly, or give them as plan_steps."""


class SessionWithoutKey(FlywheelError):
    """A session call has the state key {actual!r}: expected the session's name. Set a state key, or make the call
    independent."""


class WorkerLost(FlywheelError):
    """The worker lost its queue: {actual}; expected it to run until stopped. Start it again; its unfinished jobs are
    redelivered."""


class BadTaskFile(FlywheelError):
    """The file {file} is not a valid list of tasks: {actual}; expected {expected}."""

    is_usage = True


class SessionBusy(FlywheelError):
    """The run was not planned: the state key {actual!r} is in use by the run {run}, which has not ended. Wait for it or cancel it, or
    take another key."""
