"""Frames: columnar projections for aggregates over millions of events. Keyed, mergeable, in integers.

`frame` computes a part from some positions, `merge` combines parts into one, `read` computes the rows that people see.
Merging gives the same result for any split of the log: by page, by archived segment or by machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from eventlog.archive.columns import column_name
from eventlog.chain import canonical

from ..engine.rows import EventRow

Events = Mapping[str, pl.LazyFrame]
"""Events by type, with columns `position`, `version`, `stream`, `at` (UTC) and declared fields named by `column_of`."""

Reads = Mapping[str, Mapping[str, pl.DataType]]
"""The fields to read of each event type, with their column types."""

Tiers = tuple[tuple[pl.DataFrame, ...], ...]
"""Parts not merged yet. All parts of one tier were merged from about the same number of original parts."""

_MERGED_AT_ONCE = 16

ENVELOPE: Mapping[str, pl.DataType] = {
    "position": pl.Int64(),
    "version": pl.Int64(),
    "stream": pl.String(),
    "at": pl.Datetime("us", "UTC"),
}


@dataclass(frozen=True)
class Frame:
    """A columnar projection. `part` is the schema of its parts, which contains no floats.

    With a `key`, merging leaves a row as it is where no other row has its key, and keys are never null.
    """

    name: str
    version: int
    reads: Reads
    part: Mapping[str, pl.DataType]
    frame: Callable[[Events], pl.LazyFrame]
    merge: Callable[[pl.LazyFrame], pl.LazyFrame]
    read: Callable[[pl.LazyFrame], pl.LazyFrame]
    key: str | None = None


def part_of(frame: Frame, events: Events) -> pl.DataFrame:
    """Compute the part of these events."""
    return _with_schema(frame, frame.merge(_with_schema(frame, frame.frame(events)))).collect()


def merge_parts(frame: Frame, parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Merge parts, in any order, into one; without parts, an empty one."""
    empty = pl.LazyFrame(schema=dict(frame.part))
    return _with_schema(frame, frame.merge(pl.concat([empty, *(part.lazy() for part in parts)]))).collect()


def extend_part(frame: Frame, part: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """Merge a small part into a large one that is merged already; only rows with the small one's keys are merged."""
    if not added.height:
        return part
    if frame.key is None:
        return merge_parts(frame, (part, added))
    keys = added.select(frame.key)
    touched, others = (part.join(keys, on=frame.key, how=how) for how in ("semi", "anti"))
    return pl.concat([others, merge_parts(frame, (touched, added))])


def add_part(frame: Frame, tiers: Tiers, part: pl.DataFrame) -> Tiers:
    """Add a part. A full tier is merged into one part of the next, so each row is merged at most once for each tier."""
    first, rest = (*tiers[0], part) if tiers else (part,), tiers[1:]
    if len(first) < _MERGED_AT_ONCE:
        return (first, *rest)
    return ((), *add_part(frame, rest, merge_parts(frame, first)))


def merge_tiers(frame: Frame, tiers: Tiers) -> pl.DataFrame:
    """Merge the parts of all tiers into one."""
    return merge_parts(frame, (part for tier in tiers for part in tier))


def column_of(path: str) -> str:
    """The column of a declared field: its dotted path, prefixed with `payload.` if the envelope has that name."""
    return column_name(tuple(path.split(".")))


def _with_schema(frame: Frame, part: pl.LazyFrame) -> pl.LazyFrame:
    return part.select(pl.col(name).cast(kind) for name, kind in frame.part.items())


def events_of(reads: Reads, rows: Sequence[EventRow]) -> dict[str, pl.LazyFrame]:
    """Convert rows to columns, one frame for each event type read, possibly empty."""
    found: dict[str, list[EventRow]] = {kind: [] for kind in reads}
    for row in rows:
        if row.type in found:
            found[row.type].append(row)
    return {kind: _columns(own, reads[kind]) for kind, own in found.items()}


def _columns(rows: Sequence[EventRow], fields: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    envelope = {
        "position": [row.position for row in rows],
        "version": [row.version for row in rows],
        "stream": [row.stream for row in rows],
        "at": [row.moment for row in rows],
    }
    values = {column_of(path): [row.field(path) for row in rows] for path in fields}
    kinds = {column_of(path): kind for path, kind in fields.items()}
    made = pl.LazyFrame({**envelope, **values}, schema={**ENVELOPE, "at": pl.Int64(), **kinds})
    return made.with_columns(pl.from_epoch("at", time_unit="us").dt.replace_time_zone("UTC"))


def digest_part(part: pl.DataFrame) -> str:
    """The digest of a part, over its rows in canonical form, sorted by bytes."""
    total = hashlib.sha256()
    for row in sorted(canonical([_plain(value) for value in row]) for row in part.iter_rows()):
        total.update(hashlib.sha256(row).digest())
    return total.hexdigest()


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
