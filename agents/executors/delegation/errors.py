"""Errors of the delegation loop's shell."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class LoopElsewhere(FlywheelError):
    """The loop {loop} was written to by another process at the same time: {actual}. Resume it once the other has stopped."""


class NoSuchLoop(FlywheelError):
    """There is no delegation loop called {actual!r}: expected one that `flywheel delegate list` shows."""


class LoopEnded(FlywheelError):
    """The loop {loop} has ended ({actual}): expected an open one. Start another with `flywheel delegate run`."""


class LoopPlayedOtherwise(FlywheelError):
    """The loop {loop} was opened with {expected}; this command brings {actual}. Resume it with the same."""


class NothingAsked(FlywheelError):
    """The loop {loop} asked nothing ({actual}): expected one that waits for an answer."""


class NothingToRefine(FlywheelError):
    """The loop {loop} cannot be refined: {actual}; expected {expected}. `flywheel delegate list` shows what ended how."""


class BadLoopTask(FlywheelError):
    """The task cannot be worked on: it has {actual}; expected {expected}."""


class TruthFailed(FlywheelError):
    """The {role} could not judge a result: {actual}; expected {expected}. Mend it, then resume the loop."""


class WorkerOverBudget(FlywheelError):
    """The worker stopped because the budget is spent: {actual}."""


class WorkerFailed(FlywheelError):
    """The worker {worker} failed: {actual}."""
