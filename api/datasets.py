"""Datasets, the shell: build one from the log, freeze it, load it again and check that it is the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import msgspec
import polars as pl

from eventlog.blobs import BlobStore
from eventlog.chain import digest
from eventlog.errors import BlobErased, FlywheelError
from eventlog.events import DatasetFrozen, Query, Refused
from eventlog.store import Append, EventStore, Position
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.checkpoints import CHECKPOINTS, DatasetState
from projections.datasets import Selection, SftRow, digest_rows, oracle_tasks, select_sft, sft_rows, to_frame
from projections.groups import GROUPS, GroupState
from projections.projection import Fold
from projections.rewards import REWARDS, RewardState
from projections.runs import RUNS, RunState
from projections.taint import Holding, left_out
from projections.views import Views

from .errors import DatasetErased, Unknown

_TEXTS_KEPT = 1024

_SHORTEST = 8
_MOST_SINGLE = 500

S = TypeVar("S", bound=msgspec.Struct)

ViewsAt = Callable[[Position | None], Views]
"""Views at a position, None: the head; `House.views` is one."""


class DatasetDiffers(FlywheelError):
    """The dataset {expected} gives other rows now: their digest is {actual} at position {upto}, expected its own.

    Other code makes rows than it was frozen with, or the log is damaged: run `flywheel log verify`.
    """


@dataclass(frozen=True, slots=True)
class Built:
    """A dataset: its rows as a frame, their digest, and the query and position that give them again."""

    digest: str
    rows: pl.DataFrame
    groups: int
    refused: tuple[Refused, ...]
    upto: Position
    query: Query


def build(store: EventStore, blobs: BlobStore, views: Views, query: Query) -> Built:
    """The rows that the query selects at the views' position.

    Raises BrokenRun, BlobMissing, BlobDamaged, BlobErased.
    """
    selection, rows = rows_of(store, blobs, views, query)
    return Built(digest_rows(rows), to_frame(rows), selection.groups, selection.refused, views.upto, query)


def rows_of(store: EventStore, blobs: BlobStore, views: Views, query: Query) -> tuple[Selection, list[SftRow]]:
    """What a query selects at the views' position, and its rows.

    Raises BrokenRun, BlobMissing, BlobDamaged, BlobErased.
    """

    @lru_cache(maxsize=_TEXTS_KEPT)
    def text_of(digest: str) -> str:
        return blobs.get(digest).body.decode("utf-8", errors="replace")

    runs, rewards = views.find(RUNS), views.find(REWARDS)
    selection = _selected(store, views, query, runs, rewards, views.find(GROUPS))
    rows: list[SftRow] = []
    for run in selection.runs:
        events = store.read(stream=f"run/{run}", upto=views.upto)
        rows.extend(sft_rows(runs[run], rewards[run], events, text_of))
    return selection, rows


def _selected(
    store: EventStore,
    views: Views,
    query: Query,
    runs: Mapping[str, RunState],
    rewards: Mapping[str, RewardState],
    groups: Mapping[str, GroupState],
) -> Selection:
    planned = store.read(upto=views.upto, types=("SweepPlanned", "BenchmarkFrozen"))
    instances = benchmark_instances(views.find(BENCHMARKS).values())
    return select_sft(query, runs, rewards, instances, oracle_tasks(planned), groups, left_out(views))


def holding(store: EventStore, views_at: ViewsAt) -> Holding:
    """A Holding over the log. It selects among the runs of the groups concerned alone, and reads no blob.

    A query judges each group by itself, so that the others need not be looked at.
    """
    siblings: dict[str, set[str]] = defaultdict(set)
    groups: dict[str, str] = {}
    for run, state in views_at(None).find(RUNS).items():
        siblings[state.group].add(run)
        groups[run] = state.group

    def holds(frozen: DatasetState, runs: Set[str]) -> bool:
        views, named = views_at(Position(frozen.upto)), {groups[run] for run in runs if run in groups}
        among = {run for group in named for run in siblings[group]}
        played, rewards = _found(views, RUNS, among), _found(views, REWARDS, among)
        selection = _selected(store, views, frozen.queried(), played, rewards, _found(views, GROUPS, named))
        return not runs.isdisjoint(selection.runs)

    return holds


def _found(views: Views, fold: Fold[S], keys: Collection[str]) -> dict[str, S]:
    """The states of these keys: one by one where they are few."""
    if len(keys) > _MOST_SINGLE:
        return {key: state for key, state in views.find(fold).items() if key in keys}
    return {key: state for key in sorted(keys) if (state := views.get(fold, key)) is not None}


def freeze(store: EventStore, built: Built, actor: str) -> str:
    """Append DatasetFrozen and return the digest; rows that were frozen at this position before stay as they were."""
    event = DatasetFrozen(
        dataset=built.digest,
        query=built.query,
        upto=built.upto,
        rows=built.rows.height,
        groups=built.groups,
        refused=built.refused,
    )
    key = f"freeze:{built.digest}:{built.upto}:{digest(built.query.model_dump(mode='json')).hex()[:16]}"
    store.append([Append(stream=f"dataset/{built.digest}", events=(event,), actor=actor, key=key)])
    return built.digest


def find(views: Views, digest: str) -> DatasetState:
    """The dataset as it was frozen, by its digest or the first eight characters or more. Raises Unknown."""
    found = list(views.find(CHECKPOINTS, f"dataset/{digest}").values()) if len(digest) >= _SHORTEST else []
    if len(found) != 1:
        way_out = "Give more of its characters." if found else "List what was frozen with `flywheel dataset list`."
        raise Unknown(what="dataset", actual=digest, way_out=way_out)
    return found[0]


def load(
    store: EventStore, blobs: BlobStore, views_at: ViewsAt, digest: str, *, as_of: Position | None = None
) -> Built:
    """The rows of a frozen dataset, made again from the log.

    Raises Unknown, DatasetDiffers, DatasetErased where it needs bytes that were erased, and what `build` does.
    """
    frozen = find(views_at(as_of), digest)
    try:
        built = build(store, blobs, views_at(Position(frozen.upto)), frozen.queried())
    except BlobErased as error:
        raise DatasetErased(actual=error.facts["actual"], expected=frozen.dataset, upto=frozen.upto) from error
    if built.digest != frozen.dataset:
        raise DatasetDiffers(actual=built.digest, expected=frozen.dataset, upto=frozen.upto)
    return built
