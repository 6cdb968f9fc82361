"""What can be wrong with a sweep before any of it runs."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class UnknownTemplate(FlywheelError):
    """No plan is known for the task {actual!r}: expected one of {expected}."""


class BenchmarkInstance(FlywheelError):
    """The sweep {sweep} would run task {task} of {environment} at seed {actual}, which is kept to judge with:
    expected seeds that no benchmark holds and none is frozen from. Choose others, such as those below 9000."""

    is_usage = True


class BadSweep(FlywheelError):
    """The sweep {sweep} has {actual}: expected {expected}."""


class KeyTaken(FlywheelError):
    """The append key {key} was used in the stream {actual}, expected {expected}: the run cannot be recorded.
    Find who appended that with `flywheel log tail`; a run's keys are the runner's own."""


class StartedOtherwise(FlywheelError):
    """The run {run} was started with {actual}: expected {expected}. Play it with the code and the executor that it was started
    with; a controller, which is alone on its site, records it as missing."""


class UnknownVerifier(FlywheelError):
    """No verifier has the version {actual!r}: expected one of {expected}."""


class CannotGrade(FlywheelError):
    """The run {run} cannot be graded again: {actual}; expected a run on one of our sites with its end state."""


class PlanRefused(FlywheelError):
    """The model {model} made no plan of the text that we execute: {actual}; expected {expected}.
    Say the steps more plainly, or write them down as plan_steps."""


class SessionWithoutKey(FlywheelError):
    """A call of a session has the state key {actual!r}: expected the session's name; give it a state key, or let it be
    independent."""


class WorkerLost(FlywheelError):
    """The worker lost its queue: {actual}; expected it to go on until it is stopped. Start it again: what it had begun is
    given out again."""
