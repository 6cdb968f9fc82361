"""Frozen datasets under another reward: which rows would come, go, or be worth something else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set

from eventlog.blobs import Inventory
from eventlog.errors import BlobErased, BlobMissing
from eventlog.store import EventStore, Position
from projections.counterfactual import ViewsAt
from projections.datasets.plan_rows import BrokenRun
from projections.engine.views import Views
from projections.frozen_datasets import CHECKPOINTS, DatasetState
from projections.groups import GROUPS
from projections.rewards import REWARDS

from ...datasets.row_batches import Place, RowBatch, batches
from .report import DatasetWouldBe


def datasets(
    store: EventStore, blobs: Inventory, truth_at: ViewsAt, other_at: ViewsAt, upto: Position
) -> tuple[DatasetWouldBe, ...]:
    """Datasets frozen up to a position whose rows would differ, in the order in which they were frozen."""
    frozen = truth_at(upto).find(CHECKPOINTS, "dataset/").values()
    in_order = sorted(frozen, key=lambda state: state.frozen_since)
    return tuple(found for state in in_order for found in _compare(store, blobs, truth_at, other_at, state))


def _compare(
    store: EventStore, blobs: Inventory, truth_at: ViewsAt, other_at: ViewsAt, state: DatasetState
) -> Iterator[DatasetWouldBe]:
    truth, other = truth_at(Position(state.upto)), other_at(Position(state.upto))
    if _is_same(truth, other):
        return
    try:
        before = _rows(batches(store, blobs, truth, state.parse_query()))
        after = _rows(batches(store, blobs, other, state.parse_query()))
    except (BlobErased, BlobMissing, BrokenRun) as error:
        yield DatasetWouldBe(state.dataset, state.upto, None, state.rows, None, (), (), 0, why=str(error))
        return
    if list(before.items()) != list(after.items()):
        yield _difference_of(state, before, after)


def _is_same(truth: Views, other: Views) -> bool:
    """Whether both sides grade alike: then they select alike."""
    return truth.find(REWARDS) == other.find(REWARDS) and truth.find(GROUPS) == other.find(GROUPS)


def _rows(found: Iterable[RowBatch]) -> dict[Place, bytes]:
    """The digest of each row, in order."""
    return {place: row for batch in found for place, row in zip(batch.places, batch.digests, strict=True)}


def _difference_of(state: DatasetState, was: Mapping[Place, bytes], would: Mapping[Place, bytes]) -> DatasetWouldBe:
    return DatasetWouldBe(
        dataset=state.dataset,
        upto=state.upto,
        would=hashlib.sha256(b"".join(would.values())).hexdigest(),
        rows=len(was),
        would_rows=len(would),
        added=_runs(would.keys() - was.keys(), would),
        removed=_runs(was.keys() - would.keys(), was),
        revalued=sum(would[place] != row for place, row in was.items() if place in would),
    )


def _runs(places: Set[Place], rows: Mapping[Place, bytes]) -> tuple[str, ...]:
    """The runs of these rows, each once, in the order of the rows."""
    return tuple(dict.fromkeys(run for place in rows if place in places for run in place[0]))
