"""Events that tell results of sealed runs, which are left out while their benchmark can judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from eventlog import events
from projections.delegation.loop_state import LOOP_MARK
from projections.engine.views import Views
from projections.runs import RUNS

from .events import LoggedEvent
from .untold import find_confirming, find_hidden, find_hidden_loops, find_untold

if TYPE_CHECKING:
    from eventlog.events import (
        EvaluationLooked,
        InstanceReset,
        JudgeOpined,
        ModelCalled,
        RewardGraded,
        RunFinished,
        RunMissing,
        RunStarted,
        SiteRecorded,
        StepTaken,
        StepVerified,
        VerdictReached,
    )


def tells_results(logged: LoggedEvent) -> bool:
    """True if an event may tell a result of a sealed part."""
    return (
        _loop_of(logged.event) is not None
        or _is_of_run(logged.event)
        or _says_that_played(logged.event)
        or _is_of_evaluation(logged.event)
    )


def hide_results(views: Views, logged: tuple[LoggedEvent, ...]) -> tuple[LoggedEvent, ...]:
    """These events without those that tell something of a sealed part which may not be told yet.

    Of a sealed run that is all that it did; its start and its being lost stay, but not those of a confirming repeat;
    of a delegation loop that plays one, nothing stays.
    """
    evaluations = {each.event.evaluation for each in logged if _is_of_evaluation(each.event)}
    names = {each.event.run for each in logged if _is_of_run(each.event) or _says_that_played(each.event)}
    runs = views.pick(RUNS, names) if names else {}
    hidden = find_hidden(views, runs.values())
    confirming = find_confirming(views, runs, hidden)
    untold = find_untold(views, evaluations)
    loops = find_hidden_loops(views, {loop for each in logged if (loop := _loop_of(each.event)) is not None})
    return tuple(
        each
        for each in logged
        if _loop_of(each.event) not in loops and not _is_within(each.event, hidden, confirming, untold)
    )


def _is_within(event: object, hidden: frozenset[str], confirming: frozenset[str], evaluations: frozenset[str]) -> bool:
    """True if an event tells what one of these runs did or that it was played, or figures of these evaluations."""
    if _is_of_run(event):
        return event.run in hidden
    if _says_that_played(event):
        return event.run in confirming
    return _is_of_evaluation(event) and event.evaluation in evaluations


def _loop_of(event: object) -> str | None:
    """The delegation loop that an event is of, if it may be one that plays a run."""
    loop = getattr(event, "loop", None)
    return loop if isinstance(loop, str) and LOOP_MARK in loop else None


def _is_of_run(
    event: object,
) -> TypeGuard[RewardGraded | JudgeOpined | StepVerified | SiteRecorded | StepTaken | ModelCalled | RunFinished]:
    return isinstance(
        event,
        events.RewardGraded
        | events.JudgeOpined
        | events.StepVerified
        | events.SiteRecorded
        | events.StepTaken
        | events.ModelCalled
        | events.RunFinished,
    )


def _says_that_played(event: object) -> TypeGuard[RunStarted | InstanceReset | RunMissing]:
    return isinstance(event, events.RunStarted | events.InstanceReset | events.RunMissing)


def _is_of_evaluation(event: object) -> TypeGuard[EvaluationLooked | VerdictReached]:
    return isinstance(event, events.EvaluationLooked | events.VerdictReached)
