"""Checks of an agent's run that was played again: answered from its record, it has to do the same again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import StepTaken

from ..executors.executor import Execution
from ..executors.outside.executor import BY_ITSELF
from ..executors.outside.recorded_site import Other
from .facts import execution_facts
from .kept_checks import advice_check
from .recording import Lines, Recording, ReplayCheck

TRUSTED: Final = ("what its site and its model answered",)
_PRINTED: Final = "what the agent printed at its end"
_STOPPED: Final = "it was stopped at a limit, which it meets elsewhere now that answers come sooner"
_NO_STEP: Final = ("no step was taken",)


@dataclass(frozen=True, slots=True)
class PlayedAgain:
    """An agent's run as it was played again.

    `other` is the first thing that it asked otherwise, and `unasked` what of the record it did not ask for at last.
    `answers` is how many it got. `acted` are the numbers of recorded steps that are actions, which are asked and not
    reported. `texts` are those that recorded steps name, by address. `swap_out` puts the record's addresses into a text
    of today.
    """

    execution: Execution
    other: Other | None
    unasked: Lines
    answers: int
    acted: Collection[int]
    texts: Mapping[str, str]
    swap_out: Callable[[str], str] = str
    trusted: Lines = TRUSTED


def agent_checks(recording: Recording, again: PlayedAgain) -> Iterator[ReplayCheck]:
    """Yield the checks of what the agent was told, what it asked, what it reported, and how it ended."""
    if recording.kept is not None:
        yield advice_check(recording, recording.kept)
    other, was_stopped = again.other, _was_stopped(recording)
    if other is not None and not (was_stopped and other.is_beyond):
        yield ReplayCheck(other.name, other.expected, other.actual, where=other.where)
    name = "requests, actions and calls"
    if was_stopped:
        yield ReplayCheck(name, (), None, _STOPPED)
    else:
        yield ReplayCheck(name, again.unasked, (), where="what it did not ask for any more")
    recorded, taken = _steps_then(recording, again), _steps_now(recording, again)
    lengths = len(recorded), len(taken)
    for place in range(min(lengths) - 1 if was_stopped else max(lengths)):
        expected, actual = (each[place] if place < len(each) else _NO_STEP for each in (recorded, taken))
        yield ReplayCheck("steps", expected, actual, where=f"reported step {place}")
    if was_stopped:
        yield ReplayCheck("end", (), None, _STOPPED)
        return
    status = recording.finished.status, again.execution.status
    yield ReplayCheck("end", (f"status: {status[0]}",), (f"status: {status[1]}",), where="the end")
    yield ReplayCheck(_PRINTED, (), None, "it may hold times and places")


def _was_stopped(recording: Recording) -> bool:
    """True if the recorded agent was ended at a limit, or was given no action any more."""
    ends = recording.steps[-1].intent if recording.steps else ""
    return recording.finished.status == "out_of_budget" or not ends.startswith(BY_ITSELF)


def _steps_then(recording: Recording, again: PlayedAgain) -> Sequence[Lines]:
    """The recorded steps that the agent reported, as lines."""
    return [_lines(step, again.texts, str) for step in recording.steps if step.index not in again.acted]


def _steps_now(recording: Recording, again: PlayedAgain) -> Sequence[Lines]:
    """The steps that it reported now, as lines, as many as it could report beside its actions."""
    facts = execution_facts(recording.started.run, again.execution)
    texts = {blob.digest: blob.body.decode("utf-8", "replace") for blob in facts.blobs}
    *reported, last = [event for event in facts.events if isinstance(event, StepTaken)]
    room = max(0, recording.started.task_spec.max_steps - len(again.acted))
    return [_lines(event, texts, again.swap_out) for event in (*reported[:room], last)]


def _lines(event: StepTaken, texts: Mapping[str, str], swap: Callable[[str], str]) -> Lines:
    """A step as lines; the text of the last one is what the agent printed, and is left out."""
    argument = "" if event.argument is None else texts.get(event.argument, "")
    page = "" if event.observation is None or event.action == "finish" else texts.get(event.observation, "")
    return (
        f"action: {event.action}",
        *(f"argument: {line}" for line in swap(argument).split("\n")),
        f"intent: {swap(event.intent)}",
        f"outcome: {event.outcome}",
        f"status: {event.http_status or 'none'}",
        *(f"page: {line}" for line in swap(page).split("\n")),
    )
