"""Checks of steps that were taken again: their action and its argument, what they were for, how they ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eventlog.events import Step, StepTaken

from ..executors.executor import Execution
from .facts import argument_of
from .recording import Lines, ReplayCheck

_NONE: Final = ("no step was taken",)


def step_checks(recorded: Sequence[StepTaken], execution: Execution) -> Iterator[ReplayCheck]:
    """Yield a check of each recorded step and of each that was taken beyond them."""
    expected = [_lines(step.index, step.action, step.argument, step.intent, step.outcome) for step in recorded]
    actual = [
        _lines(each.index, each.step.action, _argument_address(each.step), each.step.intent, each.outcome)
        for each in execution.taken
    ]
    for place in range(max(len(expected), len(actual))):
        one, other = (lines[place] if place < len(lines) else _NONE for lines in (expected, actual))
        yield ReplayCheck("steps", one, other, where=f"step {place}")


def _argument_address(step: Step) -> str | None:
    found = argument_of(step)
    return None if found is None else found.digest


def _lines(index: int, action: str, argument: str | None, intent: str, outcome: str) -> Lines:
    given = () if argument is None else (f"argument: {argument}",)
    return (f"step {index}: {action}", *given, f"intent: {intent}", f"outcome: {outcome}")
