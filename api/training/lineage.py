"""Lineage: from weights back to their training events, and from a run to all weights trained on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from agents.models.local.network import refuse_missing
from eventlog.errors import BlobErased
from eventlog.events import SftQuery
from eventlog.store import Position
from projections.checkpoints import WEIGHTS, WeightsState, ancestry, checkpoints_trained_on, descendants
from projections.engine.views import Views
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.runs import RUNS, RunState
from projections.trainings import TRAININGS

from ..datasets import freeze
from ..errors import DatasetErased, Unknown
from ..house import House

_RUN_COLUMNS = ("run", "chosen_run", "rejected_run")


@dataclass(frozen=True, slots=True)
class RunEvents:
    """A run whose rows were trained on, and the positions of its first and last event up to the checkpoint."""

    run: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LineageStep:
    """One step of a lineage: a checkpoint, its training, and the groups of its dataset with their runs."""

    checkpoint: WeightsState
    config: dict[str, Any]
    dataset: DatasetState
    groups: dict[str, tuple[RunEvents, ...]]

    def plain(self) -> dict[str, Any]:
        """The step as JSON-ready values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


@dataclass(frozen=True, slots=True)
class Touched:
    """Datasets with rows of a run, checkpoints trained on them, and checkpoints that continue from those."""

    run: str
    datasets: tuple[str, ...]
    checkpoints: tuple[str, ...]
    checkpoints_under: tuple[str, ...]


def lineage(house: House, views: Views, digest: str) -> tuple[LineageStep, ...]:
    """Lineage of a checkpoint: itself, its parents, and the warm-ups of their bases.

    The rows of each dataset are rebuilt, so the result lists the actual training runs. Raises DatasetErased,
    DatasetDiffers.
    """
    return tuple(_trained_state(house, views, state) for state in ancestry(views.find(WEIGHTS), digest))


def checkpoints_touched(house: House, views: Views, run: str) -> Touched:
    """All checkpoints trained on a run, directly or through parents and bases. Raises Unknown.

    A dataset counts if it has a row of the run; to find out, the rows of the run's group are rebuilt.
    """
    played = views.get(RUNS, run)
    if played is None:
        raise Unknown(what="run", actual=run, way_out="`flywheel runs list` shows all runs.")
    holds, weights = freeze.holding_over(house.store, house.views), views.find(WEIGHTS)
    chosen = [state for state in views.find(CHECKPOINTS, "dataset/").values() if holds(state, {run})]
    found = {state.dataset for state in chosen if _is_in_rows(house, state, played)}
    first = checkpoints_trained_on(weights.values(), found)
    return Touched(run, tuple(sorted(found)), tuple(sorted(first)), descendants(weights, first))


def _is_in_rows(house: House, frozen: DatasetState, run: RunState) -> bool:
    """True if a dataset has a row of a run. Only the run's group is rebuilt, because groups are independent.

    If bytes of the group were erased, or the rebuilt rows differ from the frozen ones, the run's selection by events
    decides. Raises LibrariesMissing if text must be tokenised and the libraries are not installed.
    """
    query = frozen.parse_query().model_copy(update={"group": run.group})
    if isinstance(query, SftQuery) and query.tokens is not None:
        refuse_missing(f"that the words of {frozen.dataset[:8]} were cut into tokens for")
    found: set[str] = set()

    def note(rows: pl.DataFrame) -> None:
        found.update(*(rows[name] for name in _RUN_COLUMNS if name in rows.columns))

    try:
        freeze.make_rows(house.store, house.blobs, house.views(Position(frozen.upto)), query, note)
    except BlobErased:
        return True
    return run.run in found or _differs(house, frozen)


def _differs(house: House, frozen: DatasetState) -> bool:
    """True if the rebuilt rows of a dataset differ from the frozen ones, so they do not show its content."""
    at = house.views(Position(frozen.upto))
    try:
        freeze.again(frozen, lambda: freeze.make_rows(house.store, house.blobs, at, frozen.parse_query()))
    except freeze.DatasetDiffers:
        return True
    except DatasetErased:
        return False
    return False


def _trained_state(house: House, views: Views, state: WeightsState) -> LineageStep:
    frozen, upto = trained_on(views, state), Position(state.upto)
    training, at = views.get(TRAININGS, state.training), house.views(upto)
    runs_of: dict[str, set[str]] = defaultdict(set)

    def note(rows: pl.DataFrame) -> None:
        for column in (name for name in _RUN_COLUMNS if name in rows.columns):
            for group, run in rows.select("group", column).unique().iter_rows():
                runs_of[group].add(run)

    freeze.again(frozen, lambda: freeze.make_rows(house.store, house.blobs, at, frozen.parse_query(), note))
    groups = {
        group: tuple(_events(house, run, upto) for run in sorted(runs_of[group], key=str.encode))
        for group in sorted(runs_of, key=str.encode)
    }
    return LineageStep(state, {} if training is None else training.config, frozen, groups)


def trained_on(views: Views, state: WeightsState) -> DatasetState:
    """The frozen dataset as of a checkpoint's position; it may have been frozen again later by another query.

    Raises Unknown.
    """
    for change in views.history(CHECKPOINTS, f"dataset/{state.dataset}"):
        if change.state is not None and change.state.upto == state.upto:
            return change.state
    return freeze.find_dataset(views, state.dataset)


def _events(house: House, run: str, upto: Position) -> RunEvents:
    positions = [int(event.position) for event in house.store.read(stream=f"run/{run}", upto=upto)]
    return RunEvents(run, positions[0], positions[-1])


def rows_of_checkpoints(views: Views) -> Iterator[dict[str, Any]]:
    """All checkpoints in the order in which they were saved, as rows of a list."""
    for state in sorted(views.find(WEIGHTS).values(), key=lambda state: state.since):
        yield msgspec.to_builtins(state)
