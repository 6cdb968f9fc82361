"""Checkpoints: what was trained, what each came from, and what was learned from a run."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from projections.checkpoints import WEIGHTS, WeightsState
from projections.engine.views import Views
from projections.frozen_datasets import DatasetState
from projections.trainings import TRAININGS, TrainingState

from ..errors import NotAnAdapter, Unknown
from .paging import page_after

DIGEST: Final = re.compile(r"[0-9a-f]{8,64}")
"""A checkpoint's digest, or at least the first eight characters of it."""

CHECKPOINTS_LISTED: Final = "List them with `flywheel checkpoint list` or GET /v1/checkpoints."

MOST_LOOKED_AT: Final = 500
"""Checkpoints that are looked at to find those of one dataset."""


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """Checkpoints in order of digest; `next` is the digest to continue after, null where no more follow."""

    checkpoints: tuple[WeightsState, ...]
    next: str | None


class CheckpointAnswer(msgspec.Struct, frozen=True):
    """One checkpoint, and the stage that trained it."""

    checkpoint: WeightsState
    training: TrainingState | None


class RunEvents(msgspec.Struct, frozen=True):
    """A run whose rows were trained on, and the positions of its first and its last event up to the checkpoint's."""

    run: str
    first: int
    last: int


class LineageStep(msgspec.Struct, frozen=True):
    """One step of a lineage: a checkpoint, how it was trained, and the groups of its dataset with their runs."""

    checkpoint: WeightsState
    config: dict[str, Any]
    dataset: DatasetState
    groups: dict[str, tuple[RunEvents, ...]]


class LineageAnswer(msgspec.Struct, frozen=True):
    """A checkpoint, then everything that its training started from."""

    lineage: tuple[LineageStep, ...]


class Touched(msgspec.Struct, frozen=True):
    """Uses of a run: datasets, the checkpoints trained on those, and later ones that go on from them."""

    run: str
    datasets: tuple[str, ...]
    checkpoints: tuple[str, ...]
    checkpoints_under: tuple[str, ...]


def page_checkpoints(views: Views, *, after: str | None = None, limit: int | None = None) -> CheckpointPage:
    """A page of the checkpoints, in order of digest."""
    page, following = page_after(views, WEIGHTS, after, limit)
    return CheckpointPage(checkpoints=tuple(page.values()), next=following)


def checkpoints_of_dataset(views: Views, dataset: str) -> tuple[WeightsState, ...]:
    """The checkpoints that were trained on a dataset, among the first MOST_LOOKED_AT in order of digest."""
    return tuple(state for state in views.page(WEIGHTS, limit=MOST_LOOKED_AT).values() if state.dataset == dataset)


def show_checkpoint(views: Views, name: str) -> CheckpointAnswer:
    """One checkpoint, by a name that `find_weights` takes. Raises Unknown."""
    found = find_weights(views, name)
    return CheckpointAnswer(checkpoint=found, training=views.get(TRAININGS, found.training))


def find_weights(views: Views, name: str) -> WeightsState:
    """A checkpoint by its digest, or by at least the first eight characters of it. Raises Unknown."""
    found = list(views.find(WEIGHTS, name).values()) if DIGEST.fullmatch(name) else []
    if len(found) != 1:
        way_out = "Give more of its characters." if found else CHECKPOINTS_LISTED
        raise Unknown(what="checkpoint", actual=name, way_out=way_out)
    return found[0]


def find_adapter(views: Views, name: str) -> WeightsState:
    """The same, if it is an adapter. Raises Unknown, NotAnAdapter."""
    found = find_weights(views, name)
    if found.is_base:
        raise NotAnAdapter(actual=found.checkpoint)
    return found
