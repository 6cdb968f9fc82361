"""What may not be told of sealed runs while their benchmark can judge: their results, and events that hold them."""

from __future__ import annotations

from collections.abc import Iterable

from eventlog.events import (
    EvaluationLooked,
    JudgeOpined,
    RewardGraded,
    StepVerified,
    VerdictReached,
)
from projections.engine.views import Views
from projections.runs import RUNS, RunState

from .events import LoggedEvent
from .verdicts import find_untold

_OF_RUNS = (RewardGraded, JudgeOpined, StepVerified)
_OF_EVALUATIONS = (EvaluationLooked, VerdictReached)


def find_hidden(views: Views, runs: Iterable[RunState]) -> frozenset[str]:
    """Names of those of these runs whose results may not be told yet."""
    sealed = {run.run: run.evaluation for run in runs if run.is_sealed and run.evaluation is not None}
    untold = find_untold(views, frozenset(sealed.values()))
    return frozenset(run for run, evaluation in sealed.items() if evaluation in untold)


def tells_results(logged: LoggedEvent) -> bool:
    """True if an event may tell a result of a sealed part."""
    return isinstance(logged.event, _OF_RUNS + _OF_EVALUATIONS)


def hide_results(views: Views, logged: tuple[LoggedEvent, ...]) -> tuple[LoggedEvent, ...]:
    """These events without those that tell a figure of a sealed part which may not be told yet."""
    evaluations = {each.event.evaluation for each in logged if isinstance(each.event, _OF_EVALUATIONS)}
    runs = {each.event.run for each in logged if isinstance(each.event, _OF_RUNS)}
    hidden = find_hidden(views, views.pick(RUNS, runs).values()) if runs else frozenset()
    untold = find_untold(views, evaluations)
    return tuple(each for each in logged if not _is_within(each.event, hidden, untold))


def _is_within(event: object, runs: frozenset[str], evaluations: frozenset[str]) -> bool:
    """True if an event tells the result of one of these runs, or figures of one of these evaluations."""
    if isinstance(event, _OF_RUNS):
        return event.run in runs
    return isinstance(event, _OF_EVALUATIONS) and event.evaluation in evaluations
