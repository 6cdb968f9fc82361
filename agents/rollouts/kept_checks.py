"""Checks of a run whose record cannot answer for its site: what it says of itself in two places has to agree. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventlog.events import ModelCalled
from projections.runs import AGENT, OUTSIDE

from ..learning.advice import READERS, applied_of
from .outcome_walk import walk_checks
from .recording import KeptRun, Lines, Recording, ReplayCheck

_NO_STEPS: Final = "the executor {name!r} is not played again, and nothing answers in place of its site"
_NO_AGENT: Final = "name the agent to play it again: flywheel runs replay RUN --agent AGENT"
_NO_SITE: Final = (
    "the agent is not played again, because nothing of its site was kept; sweep with FLYWHEEL_RECORD_SITE=1"
)


def kept_checks(recording: Recording, kept: KeptRun) -> Iterator[ReplayCheck]:
    """Yield the checks of what the run was told, of the order of its calls and steps, and of their numbers."""
    if kept.is_told:
        yield advice_check(recording, kept)
    if kept.walks_plan:
        yield from walk_checks(recording)
    else:
        yield ReplayCheck("steps", (), None, _why_not_again(recording.started.executor, kept))
    yield from order_checks(recording, kept)


def order_checks(recording: Recording, kept: KeptRun) -> Iterator[ReplayCheck]:
    """Yield the checks of the order of a run's calls, of the sum of their tokens, and of the order of its steps."""
    calls = [call for call in kept.calls if call.role == "policy"]
    numbers = [call.index for call in kept.calls]
    at = [-1 if call.step is None else call.step for call in kept.calls if call.role != "recovery"]  # it comes last
    yield ReplayCheck(
        "calls in order",
        (_numbers("calls", range(len(numbers))), _numbers("made for steps", sorted(at))),
        (_numbers("calls", numbers), _numbers("made for steps", at)),
        where="the calls",
    )
    yield _tokens_check(recording, calls)
    yield _steps_in_order(recording)


def _tokens_check(recording: Recording, calls: Sequence[ModelCalled]) -> ReplayCheck:
    """The check that the run's tokens are those of its calls."""
    if recording.started.run.startswith(OUTSIDE):
        return ReplayCheck("tokens", (), None, "who reports a run from outside says its tokens")
    usage = recording.finished.usage
    spent = [_total(call.input_tokens for call in calls), _total(call.output_tokens for call in calls)]
    return ReplayCheck(
        "tokens", _tokens(usage.input_tokens, usage.output_tokens), _tokens(*spent), where="the tokens of its calls"
    )


def _why_not_again(name: str, kept: KeptRun) -> str:
    if name != AGENT:
        return _NO_STEPS.format(name=name)
    return _NO_AGENT if kept.has_site else _NO_SITE


def advice_check(recording: Recording, kept: KeptRun) -> ReplayCheck:
    """The check of what the run was told."""
    recorded = tuple(f"{item.piece} at line {item.step}" for item in recording.started.applied)
    if kept.told is None:
        return ReplayCheck("told", recorded, None, "its template is not in the log")
    again = tuple(f"{item.piece} at line {item.step}" for item in applied_of(kept.told(READERS)))
    return ReplayCheck("told", recorded, again, where="what it was told")


def _steps_in_order(recording: Recording) -> ReplayCheck:
    """The steps' numbers, and as many as actions were counted, where they were."""
    found = [step.index for step in recording.steps]
    actions = recording.finished.usage.actions
    expected: Lines = (_numbers("steps", range(len(found))), f"actions: {len(found) if actions is None else actions}")
    return ReplayCheck(
        "steps in order", expected, (_numbers("steps", found), f"actions: {len(found)}"), where="the steps"
    )


def _numbers(what: str, numbers: Iterable[int]) -> str:
    return f"{what}: {', '.join(map(str, numbers)) or 'none'}"


def _total(tokens: Iterable[int | None]) -> int | None:
    found = list(tokens)
    return None if None in found else sum(count or 0 for count in found)


def _tokens(read: int | None, written: int | None) -> Lines:
    return (f"input tokens: {read}", f"output tokens: {written}")
