"""Read rows from the log: the database returns only the declared fields, one JSON line for each event, page by page.

Dropped positions are read from the archive through the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Union

import msgspec
from sqlalchemy import Connection

from eventlog import events
from eventlog.markers import MARKED, find_markers
from eventlog.store import START, EventStore, Position, Recorded

from .decoders import decoder_of
from .projection import AnyFold, LeftOut
from .rows import EventRow, RawRow, row_class, row_of, row_of_stored, upcast_row

PAGE = 20_000
"""Number of positions in a page."""

_ENVELOPE = """e.position, ',', e.version, ',', to_json(e.stream), ',',
    (date_part('epoch', e.at) * 1000000)::bigint, ',', to_json(e.actor)"""
_WHOLE = f"concat('[\"\",', {_ENVELOPE}, ',\"', e.type, '\",', e.schema_version, ',', e.payload, ']')"
_FIRST = "(SELECT position FROM events ORDER BY position LIMIT 1)"


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields to read of each event type. `line` is the SQL of an event's JSON line, `types` an SQL array."""

    paths: dict[str, tuple[str, ...]]
    line: str
    types: str
    decoder: msgspec.json.Decoder[Any]  # noqa: TID251 the type only


def columns(folds: Iterable[AnyFold]) -> Columns:
    """The union of the fields that folds read, with withdrawals and disownings."""
    return columns_of_reads([*(fold.reads for fold in folds), {kind: (field,) for kind, field in MARKED.items()}])


def columns_of_reads(reads: Iterable[Mapping[str, Iterable[str]]]) -> Columns:
    """The union of fields by event type."""
    wanted: dict[str, set[str]] = {}
    readers: dict[str, int] = {}
    for own in reads:
        for kind, paths in own.items():
            wanted.setdefault(kind, set()).update(paths)
            readers[kind] = readers.get(kind, 0) + 1
    ordered = sorted(wanted, key=lambda kind: (-readers.get(kind, 0), kind))
    return _columns(
        tuple((kind, events.EVENT_TYPES[kind].schema_version, tuple(sorted(wanted[kind]))) for kind in ordered)
    )


@lru_cache(maxsize=256)
def _columns(wanted: tuple[tuple[str, int, tuple[str, ...]], ...]) -> Columns:
    """`wanted` is (type, schema version, paths), with the types that most folds read first."""
    whens = " ".join(
        f"WHEN e.type = '{kind}' AND e.schema_version = {version} THEN {_line(kind, paths)}"
        for kind, version, paths in wanted
    )
    types = "'{" + ",".join(kind for kind, _, _ in wanted) + "}'::text[]"
    line = f"CASE {whens} WHEN e.type = ANY({types}) THEN {_WHOLE} END"
    rows = (RawRow, *(row_class(kind, paths) for kind, _, paths in wanted))
    decoder = decoder_of(Union[rows])  # noqa: UP007 the members are known at run time only
    return Columns({kind: paths for kind, _, paths in wanted}, line, types, decoder)


def _line(kind: str, paths: tuple[str, ...]) -> str:
    values = "".join(f", ',', coalesce({_value(path)}, 'null')" for path in paths)
    return f"concat('[\"{kind}\",', {_ENVELOPE}{values}, ']')"


def _value(path: str) -> str:
    return "e.payload" + "".join(f"->'{part}'" for part in path.split("."))


def read_page(
    connection: Connection, store: EventStore, wanted: Columns, start: int, finish: int, where: str = "true"
) -> list[EventRow]:
    """The rows at positions in (start, finish]. `where` is an additional SQL condition on rows of the events table."""
    statement = f"""SELECT {_FIRST}, (SELECT string_agg(line, E'\\n') FROM (
        SELECT {wanted.line} AS line FROM events e WHERE e.position > %s AND e.position <= %s
        AND e.type = ANY({wanted.types}) AND {where} ORDER BY e.position) lines)"""  # noqa: S608 of the folds' own code
    first, lines = connection.exec_driver_sql(statement, (start, finish)).one()
    rows = _decode_rows(wanted, lines)
    if first is not None and first <= start + 1:
        return rows
    upto = finish if first is None else min(finish, first - 1)
    return [*_read_archived(store, wanted, start, upto), *rows]


def _decode_rows(wanted: Columns, lines: str | None) -> list[EventRow]:
    rows: list[EventRow] = wanted.decoder.decode_lines(lines or "")
    for index, row in enumerate(rows):
        if type(row) is RawRow:
            rows[index] = upcast_row(row, wanted.paths[row.kind])
    return rows


def _read_archived(store: EventStore, wanted: Columns, start: int, finish: int) -> Iterator[EventRow]:
    if finish > start:
        for found in store.read_stored(after=Position(start), upto=Position(finish), types=tuple(wanted.paths)):
            yield row_of_stored(found, wanted.paths[found.type])


def pages(connection: Connection, store: EventStore, wanted: Columns, finish: int) -> Iterator[list[EventRow]]:
    """The rows of a log prefix, page by page."""
    for start in range(0, finish, PAGE):
        yield read_page(connection, store, wanted, start, min(start + PAGE, finish))


def rows_of_streams(
    connection: Connection, store: EventStore, fold: AnyFold, streams: Sequence[str], upto: int
) -> list[EventRow]:
    """The rows that a fold reads in some streams, up to a position, in order."""
    return rows_in_streams(connection, store, columns((fold,)), streams, upto)


def rows_in_streams(
    connection: Connection, store: EventStore, wanted: Columns, streams: Sequence[str], upto: int
) -> list[EventRow]:
    """The rows of some streams with the `wanted` fields, up to a position, in order."""
    statement = f"""SELECT string_agg(line, E'\\n'), array_agg(DISTINCT archived) FILTER (WHERE archived IS NOT NULL)
        FROM (SELECT {wanted.line} AS line, CASE WHEN e.position IS NULL THEN s.stream END AS archived
            FROM stream_versions s
                CROSS JOIN generate_series(s.position - s.events + 1, least(s.position, %s)) AS p (position)
                LEFT JOIN LATERAL (SELECT * FROM events e WHERE e.position = p.position OFFSET 0) e ON true
            WHERE s.stream = ANY(%s) ORDER BY p.position) found"""  # noqa: S608 as above
    lines, archived = connection.exec_driver_sql(statement, (upto, list(streams))).one()
    rows = _decode_rows(wanted, lines)
    if archived is None:
        return rows
    elsewhere = (store.read(stream=stream, upto=Position(upto)) for stream in archived)
    whole = [_row(wanted, event) for events in elsewhere for event in events if event.event.type in wanted.paths]
    return sorted([*(row for row in rows if row.stream not in archived), *whole], key=lambda row: row.position)


def _row(wanted: Columns, event: Recorded) -> EventRow:
    return row_of(event, wanted.paths[event.event.type])


def rows_left_out(
    connection: Connection, store: EventStore, fold: AnyFold, left_out: LeftOut, upto: int
) -> Iterator[EventRow]:
    """The rows up to a position that may be left out, including all rows of older schema versions if runs are."""
    wanted = columns((fold,))
    for after, end in merge_ranges((at - 1, at) for at in left_out.positions if at <= upto):
        yield from read_page(connection, store, wanted, after, end)
    if fold.rests_on is None or not left_out.runs:
        return
    named = "ARRAY[" + ",".join(f"'{_quote(run)}'" for run in sorted(left_out.runs)) + "]"
    tests = [
        f"e.schema_version <> {events.EVENT_TYPES[kind].schema_version} AND e.type = '{kind}'" for kind in wanted.paths
    ]
    for kind, paths in fold.rests_on.items():
        tests += [f"e.type = '{kind}' AND {_value(path)} ?| {named}" for path in paths]
    yield from read_page(connection, store, wanted, START, upto, "(" + " OR ".join(tests) + ")")


Range = tuple[int, int]
"""The positions in (after, upto]."""


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """The same positions in as few ranges as possible, in order."""
    merged: list[Range] = []
    for after, upto in sorted(ranges):
        if merged and after <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(upto, merged[-1][1])
        else:
            merged.append((after, upto))
    return merged


def _quote(text: str) -> str:
    return text.replace("'", "''").replace("%", "%%")


def read_markers(connection: Connection, store: EventStore, after: int, upto: int) -> list[EventRow]:
    """The withdrawals and disownings at positions in (after, upto], in order."""
    return [_marker(*found) for found in find_markers(connection, store, after, upto)]


def _marker(position: int, kind: str, named: list[Any]) -> EventRow:
    made: Callable[..., EventRow] = row_class(kind, (MARKED[kind],))
    return made(position, 0, "", 0, "", named)
