"""Events that tell results of sealed runs, which are left out while their benchmark can judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from eventlog import events
from projections.engine.views import Views
from projections.runs import RUNS

from .events import LoggedEvent
from .untold import find_hidden, find_untold

if TYPE_CHECKING:
    from eventlog.events import EvaluationLooked, JudgeOpined, RewardGraded, StepVerified, VerdictReached


def tells_results(logged: LoggedEvent) -> bool:
    """True if an event may tell a result of a sealed part."""
    return _is_of_run(logged.event) or _is_of_evaluation(logged.event)


def hide_results(views: Views, logged: tuple[LoggedEvent, ...]) -> tuple[LoggedEvent, ...]:
    """These events without those that tell a figure of a sealed part which may not be told yet."""
    evaluations = {each.event.evaluation for each in logged if _is_of_evaluation(each.event)}
    runs = {each.event.run for each in logged if _is_of_run(each.event)}
    hidden = find_hidden(views, views.pick(RUNS, runs).values()) if runs else frozenset()
    untold = find_untold(views, evaluations)
    return tuple(each for each in logged if not _is_within(each.event, hidden, untold))


def _is_within(event: object, runs: frozenset[str], evaluations: frozenset[str]) -> bool:
    """True if an event tells the result of one of these runs, or figures of one of these evaluations."""
    if _is_of_run(event):
        return event.run in runs
    return _is_of_evaluation(event) and event.evaluation in evaluations


def _is_of_run(event: object) -> TypeGuard[RewardGraded | JudgeOpined | StepVerified]:
    return isinstance(event, events.RewardGraded | events.JudgeOpined | events.StepVerified)


def _is_of_evaluation(event: object) -> TypeGuard[EvaluationLooked | VerdictReached]:
    return isinstance(event, events.EvaluationLooked | events.VerdictReached)
