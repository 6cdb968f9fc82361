"""Frozen datasets under another reward: which rows would come, go, or be worth something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eventlog.blobs import BlobStore
from eventlog.errors import BlobErased, BlobMissing
from eventlog.store import EventStore, Position
from projections.checkpoints import CHECKPOINTS, DatasetState
from projections.counterfactual import ViewsAt
from projections.datasets import BrokenRun, SftRow, digest_rows
from projections.groups import GROUPS
from projections.rewards import REWARDS
from projections.views import Views

from ..datasets import rows_of
from .report import DatasetWouldBe


def datasets(
    store: EventStore, blobs: BlobStore, truth_at: ViewsAt, other_at: ViewsAt, upto: Position
) -> tuple[DatasetWouldBe, ...]:
    """Datasets frozen up to a position whose rows would differ, in the order in which they were frozen."""
    frozen = truth_at(upto).find(CHECKPOINTS, "dataset/").values()
    in_order = sorted(frozen, key=lambda state: state.frozen_since)
    return tuple(found for state in in_order for found in _compared(store, blobs, truth_at, other_at, state))


def _compared(
    store: EventStore, blobs: BlobStore, truth_at: ViewsAt, other_at: ViewsAt, state: DatasetState
) -> Iterator[DatasetWouldBe]:
    truth, other = truth_at(Position(state.upto)), other_at(Position(state.upto))
    if _is_same(truth, other):
        return
    try:
        before = rows_of(store, blobs, truth, state.queried())[1]
        after = rows_of(store, blobs, other, state.queried())[1]
    except (BlobErased, BlobMissing, BrokenRun) as error:
        yield DatasetWouldBe(state.dataset, state.upto, None, state.rows, None, (), (), 0, why=str(error))
        return
    if before != after:
        yield _differing(state, before, after)


def _is_same(truth: Views, other: Views) -> bool:
    """Whether both sides grade alike: then they select alike."""
    return truth.find(REWARDS) == other.find(REWARDS) and truth.find(GROUPS) == other.find(GROUPS)


def _differing(state: DatasetState, before: Sequence[SftRow], after: Sequence[SftRow]) -> DatasetWouldBe:
    was = {(row.run, row.step): row for row in before}
    would = {(row.run, row.step): row for row in after}
    return DatasetWouldBe(
        dataset=state.dataset,
        upto=state.upto,
        would=digest_rows(after),
        rows=len(before),
        would_rows=len(after),
        added=tuple(dict.fromkeys(run for run, step in would if (run, step) not in was)),
        removed=tuple(dict.fromkeys(run for run, step in was if (run, step) not in would)),
        revalued=sum(would[place] != row for place, row in was.items() if place in would),
    )
