"""Timelines: the events of a run arranged by step, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, zip_longest

import msgspec

from eventlog.events import (
    InstanceReset,
    ModelCalled,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
    StepTaken,
    StepVerified,
)
from eventlog.store import EventStore, Position
from projections.engine.views import Views

from .events import LoggedEvent, logged_event
from .runs import GradedRun, pick_runs
from .sealed import hide_results

MOST_EVENTS = 2_000
"""Events of a run that are read for its timeline."""

LOOKED_BACK = 3_000
"""Positions in which the newest runs are looked for."""


class TimelineStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run, with the model calls made for it and the checks of it."""

    position: int
    step: StepTaken
    calls: tuple[ModelCalled, ...]
    checks: tuple[StepVerified, ...]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A run from its start to its grades. `others` are its other events, such as what recovery decided.

    `is_cut` is true where more than MOST_EVENTS events were recorded; the rest is left out.
    """

    start: RunStarted | None
    reset: InstanceReset | None
    first_calls: tuple[ModelCalled, ...]
    turns: tuple[TimelineStep, ...]
    end: RunFinished | RunMissing | None
    grades: tuple[tuple[int, RewardGraded], ...]
    others: tuple[LoggedEvent, ...]
    is_cut: bool


class TurnPair(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of two runs at one index; `differs` tells that they did or met something else."""

    left: TimelineStep | None
    right: TimelineStep | None
    differs: bool


_SHOWN = (
    RunStarted,
    InstanceReset,
    StepTaken,
    StepVerified,
    ModelCalled,
    RunFinished,
    RunMissing,
    RewardGraded,
)


def read_timeline(store: EventStore, views: Views, run: str) -> Timeline:
    """The timeline of a run as of the views' position; it is empty where there is no such run.

    What a sealed run did is left out while its benchmark can judge.
    """
    found = [logged_event(each) for each in islice(store.read(stream=f"run/{run}", upto=views.upto), MOST_EVENTS + 1)]
    told = hide_results(views, tuple(found[:MOST_EVENTS]))
    return arrange_events(told, is_cut=len(found) > MOST_EVENTS)


def arrange_events(logged: Sequence[LoggedEvent], *, is_cut: bool = False) -> Timeline:
    """The events of one run as a timeline."""
    events = [each.event for each in logged]
    calls = [event for event in events if isinstance(event, ModelCalled)]
    checks = [event for event in events if isinstance(event, StepVerified)]
    ends = (event for event in events if isinstance(event, RunFinished | RunMissing))
    return Timeline(
        start=next((event for event in events if isinstance(event, RunStarted)), None),
        reset=next((event for event in events if isinstance(event, InstanceReset)), None),
        first_calls=tuple(call for call in calls if call.step is None),
        turns=tuple(
            TimelineStep(
                position=each.position,
                step=each.event,
                calls=tuple(call for call in calls if call.step == each.event.index),
                checks=tuple(check for check in checks if check.index == each.event.index),
            )
            for each in logged
            if isinstance(each.event, StepTaken)
        ),
        end=next(ends, None),
        grades=tuple((each.position, each.event) for each in logged if isinstance(each.event, RewardGraded)),
        others=tuple(each for each in logged if not isinstance(each.event, _SHOWN)),
        is_cut=is_cut,
    )


def align_turns(left: Timeline, right: Timeline) -> tuple[TurnPair, ...]:
    """The steps of two runs, paired by their index."""
    return tuple(
        TurnPair(left=one, right=other, differs=_what_happened(one) != _what_happened(other))
        for one, other in zip_longest(left.turns, right.turns)
    )


def _what_happened(turn: TimelineStep | None) -> tuple[object, ...] | None:
    if turn is None:
        return None
    step = turn.step
    return step.action, step.intent, step.outcome, step.http_status


def recent_runs(store: EventStore, views: Views, limit: int) -> tuple[GradedRun, ...]:
    """The runs that were started last, newest first, among the last LOOKED_BACK positions."""
    after = Position(max(0, int(views.upto) - LOOKED_BACK))
    started = [
        item.event.run
        for item in store.read(after=after, upto=views.upto, types=["RunStarted"])
        if isinstance(item.event, RunStarted)
    ]
    wanted = list(dict.fromkeys(reversed(started)))[:limit]
    found = pick_runs(views, wanted)
    return tuple(found[run] for run in wanted if run in found)
