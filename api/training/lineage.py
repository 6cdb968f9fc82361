"""Lineage: from weights back to the events they were trained on, and from a run to all weights trained on it."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from agents.models.local.network import refuse_missing
from eventlog.errors import BlobErased
from eventlog.events import SftQuery
from eventlog.store import Position
from projections.checkpoints import WEIGHTS, WeightsState, ancestry, checkpoints_trained_on, descendants
from projections.engine.views import Views
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.runs import RunState
from projections.trainings import TRAININGS

from ..datasets import freeze
from ..errors import DatasetErased
from ..house import House
from ..queries.checkpoints import LineageAnswer, LineageStep, RunEvents, Touched
from ..queries.datasets import find_dataset
from ..queries.runs import require_run

_RUN_COLUMNS = ("run", "chosen_run", "rejected_run")


def lineage(house: House, views: Views, digest: str) -> LineageAnswer:
    """A checkpoint, then everything that it continues from: its parents, and the warm-ups that made their bases.

    The rows of each dataset are made again, so that the named runs are those that were trained on. Raises
    DatasetErased, DatasetDiffers.
    """
    steps = (_trained_state(house, views, state) for state in ancestry(views.find(WEIGHTS), digest))
    return LineageAnswer(lineage=tuple(steps))


def checkpoints_touched(house: House, views: Views, run: str) -> Touched:
    """Every checkpoint that a run contributed to, directly or through parents and bases. Raises Unknown.

    A dataset counts if one of its rows is of the run; the rows of the run's group are made again.
    """
    played = require_run(views, run)
    holds, weights = freeze.holding_over(house.store, house.views), views.find(WEIGHTS)
    chosen = [state for state in views.find(CHECKPOINTS, "dataset/").values() if holds(state, {run})]
    found = {state.dataset for state in chosen if _is_in_rows(house, state, played)}
    first = checkpoints_trained_on(weights.values(), found)
    return Touched(run, tuple(sorted(found)), tuple(sorted(first)), descendants(weights, first))


def _is_in_rows(house: House, frozen: DatasetState, run: RunState) -> bool:
    """True if a row is of a run. A query judges each group by itself, so the others need not be made.

    If bytes of its group were erased since, or other rows are made now than then, it is what the log selects. Raises
    LibrariesMissing if words have to be cut into tokens and the libraries for that are missing.
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
    """True if the dataset gives other rows now than it was frozen with: they do not say what was in it."""
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
    """The dataset as it was frozen at the position of a checkpoint; it may have been frozen again by another query.

    Raises Unknown.
    """
    for change in views.history(CHECKPOINTS, f"dataset/{state.dataset}"):
        if change.state is not None and change.state.upto == state.upto:
            return change.state
    return find_dataset(views, state.dataset)


def _events(house: House, run: str, upto: Position) -> RunEvents:
    positions = [int(event.position) for event in house.store.read(stream=f"run/{run}", upto=upto)]
    return RunEvents(run, positions[0], positions[-1])
