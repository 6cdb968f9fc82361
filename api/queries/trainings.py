"""Trainings: the stages that were started, their progress, and the curves of one of them."""

from __future__ import annotations

import msgspec

from eventlog.events import TrainingProgressed
from eventlog.store import EventStore
from projections.engine.views import Views
from projections.trainings import TRAININGS, TrainingState

from .facts import find_state
from .paging import page_after

MOST_POINTS = 600
"""Points of a curve; of a longer stage every n-th step is shown."""


class TrainingPage(msgspec.Struct, frozen=True, kw_only=True):
    """Stages in order of name; `next` is the name to continue after, null where no more follow."""

    trainings: tuple[TrainingState, ...]
    next: str | None


class Curves(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a stage by name, one value for each of `steps`; null where a step lacks it."""

    steps: tuple[int, ...]
    metrics: dict[str, tuple[float | None, ...]]


class TrainingReport(msgspec.Struct, frozen=True):
    """One stage and its curves."""

    training: TrainingState
    curves: Curves


def list_trainings(views: Views, *, after: str | None = None, limit: int | None = None) -> TrainingPage:
    """A page of the stages."""
    page, following = page_after(views, TRAININGS, after, limit)
    return TrainingPage(trainings=tuple(page.values()), next=following)


def show_training(store: EventStore, views: Views, name: str) -> TrainingReport:
    """One stage with its curves. Raises Unknown."""
    state = find_state(views, TRAININGS, name, what="training", way_out="`flywheel checkpoint list` names them.")
    progressed = [
        item.event
        for item in store.read(stream=f"training/{name}", upto=views.upto)
        if isinstance(item.event, TrainingProgressed)
    ]
    return TrainingReport(training=state, curves=curves_of_stage(progressed))


def curves_of_stage(progressed: list[TrainingProgressed]) -> Curves:
    """The curves of a stage: of each step its last report, for a stage that was started again repeats steps. Pure."""
    last = {event.step: event.metrics.model_dump() for event in progressed}
    stride = -(-len(last) // MOST_POINTS) if last else 1
    steps = sorted(last)[::-stride][::-1]
    names = sorted({name for step in steps for name, value in last[step].items() if _number(value) is not None})
    return Curves(
        steps=tuple(steps), metrics={name: tuple(_number(last[step].get(name)) for step in steps) for name in names}
    )


def _number(value: object) -> float | None:
    """A metric as a number; they are recorded as decimal text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
