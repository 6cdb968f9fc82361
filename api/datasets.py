"""Datasets, the shell: build one from the log, freeze it, load it again and check that it is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from eventlog.blobs import BlobStore
from eventlog.chain import digest
from eventlog.errors import FlywheelError
from eventlog.events import DatasetFrozen, Query, Refused
from eventlog.store import Append, EventStore, Position
from projections.benchmarks import BENCHMARKS, benchmark_instances
from projections.checkpoints import CHECKPOINTS, DatasetState
from projections.datasets import Selection, SftRow, digest_rows, oracle_tasks, select_sft, sft_rows, to_frame
from projections.groups import GROUPS
from projections.rewards import REWARDS
from projections.runs import RUNS
from projections.views import Views
from projections.withdrawal import withdrawn_runs

from .errors import Unknown

_TEXTS_KEPT = 1024

ViewsAt = Callable[[Position | None], Views]
"""Views at a position, None: the head; `House.views` is one."""


_SHORTEST = 8


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
    """The rows that the query selects at the views' position. Raises BrokenRun, BlobMissing, BlobDamaged."""
    selection, rows = _rows(store, blobs, views, query)
    return Built(digest_rows(rows), to_frame(rows), selection.groups, selection.refused, views.upto, query)


def _rows(store: EventStore, blobs: BlobStore, views: Views, query: Query) -> tuple[Selection, list[SftRow]]:
    @lru_cache(maxsize=_TEXTS_KEPT)
    def text_of(digest: str) -> str:
        return blobs.get(digest).body.decode("utf-8", errors="replace")

    runs, rewards = views.find(RUNS), views.find(REWARDS)
    planned = tuple(store.read(upto=views.upto, types=("SweepPlanned", "BenchmarkFrozen", "RunsWithdrawn")))
    gone = withdrawn_runs(planned)
    instances = benchmark_instances(views.find(BENCHMARKS).values())
    selection = select_sft(query, runs, rewards, instances, oracle_tasks(planned), views.find(GROUPS), gone)
    rows: list[SftRow] = []
    for run in selection.runs:
        events = store.read(stream=f"run/{run}", upto=views.upto)
        rows.extend(sft_rows(runs[run], rewards[run], events, text_of))
    return selection, rows


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
    """The rows of a frozen dataset, made again from the log. Raises Unknown, DatasetDiffers, and what `build` does."""
    frozen = find(views_at(as_of), digest)
    built = build(store, blobs, views_at(Position(frozen.upto)), frozen.queried())
    if built.digest != frozen.dataset:
        raise DatasetDiffers(actual=built.digest, expected=frozen.dataset, upto=frozen.upto)
    return built
