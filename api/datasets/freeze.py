"""Datasets: make one from the log, freeze it, make it again and check that it is the same."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import polars as pl
from polars.io.plugins import register_io_source

from eventlog.blobs import Inventory
from eventlog.chain import digest
from eventlog.errors import BlobErased, FlywheelError
from eventlog.events import DatasetFrozen, Query, Refused, SftQuery, SliceRegistered
from eventlog.store import Append, EventStore, Position
from projections.datasets.curation import judged_by_log, looked_at
from projections.engine.views import Views
from projections.frozen_datasets import DatasetState
from projections.groups import find_group, pick_groups
from projections.runs import RUNS
from projections.taint import Holding

from ..errors import DatasetErased, EmptyDataset, Unknown
from ..queries.datasets import Frozen, find_dataset
from .row_batches import (
    GROUPS_AT_ONCE,
    RowBatch,
    batches,
    judge_groups,
    knowledge,
    read_group_facts,
    row_schema,
    with_opinions,
)

ROW_GROUP: Final = 1024
"""Rows per row group of a Parquet file."""

M = TypeVar("M", "DatasetSummary", "BuiltDataset")

ViewsAt = Callable[[Position | None], Views]
"""Opens views at a position (None: the head), like `House.views`."""


class DatasetDiffers(FlywheelError):
    """The rebuilt rows of the dataset {expected} differ: their digest is {actual} at position {upto}, not as frozen.

    Either the code that builds rows has changed since the freeze, or the log is damaged: run `flywheel log verify`.
    """


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Result of a query: digest and number of its rows, number of groups, and what is needed to rebuild them."""

    digest: str
    height: int
    groups: int
    refused: tuple[Refused, ...]
    upto: Position
    query: Query


@dataclass(frozen=True, slots=True)
class BuiltDataset(DatasetSummary):
    """A DatasetSummary with all rows in memory."""

    rows: pl.DataFrame


@dataclass
class _Tally:
    """The totals of the batches so far."""

    content: hashlib._Hash = field(default_factory=hashlib.sha256)
    height: int = 0
    groups: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def frames(self, found: Iterable[RowBatch]) -> Iterator[pl.DataFrame]:
        """Yield the nonempty frames of batches, counting every batch."""
        for batch in found:
            self.content.update(b"".join(batch.digests))
            self.height += batch.frame.height
            self.groups += batch.groups
            self.refused.update(batch.refused)
            if batch.frame.height:
                yield batch.frame

    def summary(self, views: Views, query: Query) -> DatasetSummary:
        """Summary of the counted batches."""
        refused = tuple(Refused(reason=reason, runs=amount) for reason, amount in sorted(self.refused.items()))
        return DatasetSummary(self.content.hexdigest(), self.height, self.groups, refused, views.upto, query)


def make_rows(
    store: EventStore,
    blobs: Inventory,
    views: Views,
    query: Query,
    each: Callable[[pl.DataFrame], object] = id,
    *,
    groups_at_once: int = GROUPS_AT_ONCE,
) -> DatasetSummary:
    """Build the rows that the query selects at the views' position in batches, and pass each batch to `each`.

    Raises BrokenRun, BlobMissing, BlobDamaged, BlobErased.
    """
    tally = _Tally()
    for frame in tally.frames(batches(store, blobs, views, query, groups_at_once)):
        each(frame)
    return tally.summary(views, query)


def build_dataset(store: EventStore, blobs: Inventory, views: Views, query: Query) -> BuiltDataset:
    """Build all rows of a query as one frame. Raises as `make_rows`."""
    frames = [pl.DataFrame(schema=dict(row_schema(query)))]
    made = make_rows(store, blobs, views, query, frames.append)
    return BuiltDataset(
        made.digest, made.height, made.groups, made.refused, made.upto, query, rows=pl.concat(frames, rechunk=False)
    )


def write_dataset(
    store: EventStore,
    blobs: Inventory,
    views: Views,
    query: Query,
    file: Path,
    each: Callable[[pl.DataFrame], object] = id,
) -> DatasetSummary:
    """Build the rows into a file, Parquet or JSON lines by its suffix, holding one batch in memory at a time.

    Raises what `make_rows` raises, and OSError.
    """
    tally = _Tally()

    def source(
        with_columns: list[str] | None, _predicate: pl.Expr | None, _most: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        for frame in tally.frames(batches(store, blobs, views, query)):
            each(frame)
            yield frame if with_columns is None else frame.select(with_columns)

    rows = register_io_source(source, schema=dict(row_schema(query)))
    if file.suffix == ".ndjson":
        rows.sink_ndjson(file)
    else:
        rows.sink_parquet(file, row_group_size=ROW_GROUP)
    return tally.summary(views, query)


def refuse_empty(made: DatasetSummary) -> DatasetSummary:
    """Return the dataset if it has rows. Raises EmptyDataset, which says what was refused."""
    if made.height:
        return made
    refused = ", ".join(f"{item.runs} {item.reason}" for item in made.refused)
    raise EmptyDataset(kind=made.query.kind, upto=made.upto, actual=refused or "no run matched")


def holding_over(store: EventStore, views_at: ViewsAt) -> Holding:
    """A Holding over the log. It selects only among runs of the affected groups, and reads no blobs.

    A query selects in each group independently of the others. Runs of a policy that are refused only because of their
    tokens are included, because completions are not read.
    """
    now = views_at(None)

    def holds(frozen: DatasetState, runs: Set[str]) -> bool:
        named = {run.group for run in now.pick(RUNS, runs).values()}
        views = views_at(Position(frozen.upto))
        return not runs.isdisjoint(_select_runs(store, views, frozen.parse_query(), named))

    return holds


def _select_runs(store: EventStore, views: Views, query: Query, named: Set[str]) -> Set[str]:
    """Runs of some groups that a query selects, by their events alone."""
    if not (isinstance(query, SftQuery) and query.runs == "plan"):
        return select_runs(store, views, query, named)
    reasons = judge_groups(views, query, named, knowledge(store, views))
    return {run for run, (_, reason) in reasons.items() if reason is None}


def select_runs(store: EventStore, views: Views, query: Query, named: Set[str]) -> Set[str]:
    """Runs among `named` that a query selects, by their events alone; reads no blobs."""
    known = knowledge(store, views)
    asked = [group for group in pick_groups(views, named).values() if looked_at(query, group)]
    facts, known = read_group_facts(store, views, asked), with_opinions(views, query, asked, known)
    fit = (judged_by_log(query, group, facts, known)[0] for group in asked)
    return {sibling.run for own in fit for sibling in own}


def freeze_dataset(store: EventStore, made: DatasetSummary, actor: str) -> str:
    """Append DatasetFrozen and return the digest. Idempotent for the same rows and position."""
    event = DatasetFrozen(
        dataset=made.digest,
        query=made.query,
        upto=made.upto,
        rows=made.height,
        groups=made.groups,
        refused=made.refused,
    )
    key = f"freeze:{made.digest}:{made.upto}:{_digest_of(made.query)}"
    store.append([Append(stream=f"dataset/{made.digest}", events=(event,), actor=actor, key=key)])
    return made.digest


def register(store: EventStore, made: DatasetSummary, actor: str) -> str:
    """Append SliceRegistered for the query's group and return the group. Raises ValueError if the query has none."""
    group = made.query.group
    if group is None:
        raise ValueError("the query of a slice names no group; expected the group to register")
    event = SliceRegistered(
        group=group, dataset=made.digest, query=made.query, upto=made.upto, rows=made.height, refused=made.refused
    )
    key = f"slice:{group}:{made.digest}:{made.upto}:{_digest_of(made.query)}"
    store.append([Append(stream=f"slice/{group}", events=(event,), actor=actor, key=key)])
    return group


def _digest_of(query: Query) -> str:
    return digest(query.model_dump(mode="json")).hex()[:16]


def refuse_unknown_group(views: Views, group: str) -> None:
    """Raise Unknown if no run that counts belongs to the group."""
    way_out = "`flywheel rollout status SWEEP` and the column `group` of `flywheel runs list` show groups."
    if find_group(views, group) is None:
        raise Unknown(what="group", actual=group, way_out=way_out)


def load(
    store: EventStore, blobs: Inventory, views_at: ViewsAt, digest: str, *, as_of: Position | None = None
) -> BuiltDataset:
    """Rebuild the rows of a frozen dataset from the log.

    Raises Unknown, DatasetDiffers, DatasetErased if it needs bytes that were erased, and what `make_rows` raises.
    """
    frozen = find_dataset(views_at(as_of), digest)
    return again(frozen, lambda: build_dataset(store, blobs, views_at(Position(frozen.upto)), frozen.parse_query()))


def again(frozen: Frozen, making: Callable[[], M]) -> M:
    """Return what `making` makes again of a frozen dataset. Raises DatasetDiffers, DatasetErased."""
    try:
        made = making()
    except BlobErased as error:
        raise DatasetErased(actual=error.facts["actual"], expected=frozen.dataset, upto=frozen.upto) from error
    if made.digest != frozen.dataset:
        raise DatasetDiffers(actual=made.digest, expected=frozen.dataset, upto=frozen.upto)
    return made
