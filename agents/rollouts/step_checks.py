"""Checks of steps that were taken again: their action, what they were for, and how they ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eventlog.events import StepTaken

from ..executors.executor import Execution
from .recording import Lines, ReplayCheck

_NONE: Final = ("no step was taken",)


def step_checks(recorded: Sequence[StepTaken], execution: Execution) -> Iterator[ReplayCheck]:
    """Yield a check of each recorded step and of each that was taken beyond them."""
    expected = [_lines(step.index, step.action, step.intent, step.outcome) for step in recorded]
    actual = [_lines(each.index, each.step.action, each.step.intent, each.outcome) for each in execution.taken]
    for place in range(max(len(expected), len(actual))):
        one, other = (lines[place] if place < len(lines) else _NONE for lines in (expected, actual))
        yield ReplayCheck("steps", one, other, where=f"step {place}")


def _lines(index: int, action: str, intent: str, outcome: str) -> Lines:
    return (f"step {index}: {action}", f"intent: {intent}", f"outcome: {outcome}")
