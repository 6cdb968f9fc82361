"""A frame: a projection over columns, for what is counted by the million. Keyed, mergeable, in integers.

`frame` makes a part of some positions, `merge` makes one part of several, `read` makes the rows that people see. Parts
of any split of the log merge to the same: so it can be cut by page, by archived segment or by machine.
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
"""For each event type its events: `position`, `version`, `stream`, `at` (UTC), declared fields named by `column_of`."""

Reads = Mapping[str, Mapping[str, pl.DataType]]
"""The fields wanted of each event type, and what they hold."""

Tiers = tuple[tuple[pl.DataFrame, ...], ...]
"""Parts on their way to one: those of a tier come of about equally many parts."""

_MERGED_AT_ONCE = 16

ENVELOPE: Mapping[str, pl.DataType] = {
    "position": pl.Int64(),
    "version": pl.Int64(),
    "stream": pl.String(),
    "at": pl.Datetime("us", "UTC"),
}


@dataclass(frozen=True)
class Frame:
    """A projection over columns. `part` is the schema of its parts, none of them a float."""

    name: str
    version: int
    reads: Reads
    part: Mapping[str, pl.DataType]
    frame: Callable[[Events], pl.LazyFrame]
    merge: Callable[[pl.LazyFrame], pl.LazyFrame]
    read: Callable[[pl.LazyFrame], pl.LazyFrame]


def part_of(frame: Frame, events: Events) -> pl.DataFrame:
    """The part that these events make."""
    return _with_schema(frame, frame.merge(_with_schema(frame, frame.frame(events)))).collect()


def merge_parts(frame: Frame, parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One part of several, in any order; an empty one of none."""
    empty = pl.LazyFrame(schema=dict(frame.part))
    return _with_schema(frame, frame.merge(pl.concat([empty, *(part.lazy() for part in parts)]))).collect()


def add_part(frame: Frame, tiers: Tiers, part: pl.DataFrame) -> Tiers:
    """One more part. A full tier becomes one part of the next: no row is merged more often than there are tiers."""
    first, rest = (*tiers[0], part) if tiers else (part,), tiers[1:]
    if len(first) < _MERGED_AT_ONCE:
        return (first, *rest)
    return ((), *add_part(frame, rest, merge_parts(frame, first)))


def merge_tiers(frame: Frame, tiers: Tiers) -> pl.DataFrame:
    """The one part that all tiers make."""
    return merge_parts(frame, (part for tier in tiers for part in tier))


def column_of(path: str) -> str:
    """The column of a declared field: its dotted path, `payload.` before it where an event's envelope has that name."""
    return column_name(tuple(path.split(".")))


def _with_schema(frame: Frame, part: pl.LazyFrame) -> pl.LazyFrame:
    return part.select(pl.col(name).cast(kind) for name, kind in frame.part.items())


def events_of(reads: Reads, rows: Sequence[EventRow]) -> dict[str, pl.LazyFrame]:
    """Rows as columns, one frame for each event type that is read, also where there is none of it."""
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
    """The digest of a part: over its rows in canonical form, in the order of their bytes."""
    total = hashlib.sha256()
    for row in sorted(canonical([_plain(value) for value in row]) for row in part.iter_rows()):
        total.update(hashlib.sha256(row).digest())
    return total.hexdigest()


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
