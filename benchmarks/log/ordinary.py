"""The plain loop for comparison: server-side cursor, payloads as dicts, the same folds, rows by executemany."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.log.server import Server
from eventlog.chain import microseconds
from eventlog.store import Position
from projections import ALL
from projections.engine.projection import AnyFold, Change, apply, digest_of, latest, state_json
from projections.engine.reader import columns
from projections.engine.rows import EventRow, at_path, row_class

_PAGE = 2000
_EVENTS = """SELECT position, stream, version, at, actor, cause, type, schema_version, payload
    FROM events WHERE position <= %s ORDER BY position"""
_TABLES = """
CREATE TABLE IF NOT EXISTS loop_history (projection text, key text, since bigint, state jsonb,
    PRIMARY KEY (projection, key, since));
CREATE TABLE IF NOT EXISTS loop_latest (projection text, key text, since bigint, state jsonb,
    PRIMARY KEY (projection, key));
TRUNCATE loop_history, loop_latest;
"""
_INSERT = "INSERT INTO loop_history VALUES (%s, %s, %s, %s)"
_UPSERT = (
    "INSERT INTO loop_latest VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (projection, key) DO UPDATE SET since = EXCLUDED.since, state = EXCLUDED.state"
)


def read(server: Server, project: str, events: int) -> int:
    """Read the first events as dicts; return their number."""
    return sum(len(page) for page in _pages(server, project, events))


def fold(server: Server, project: str, events: int) -> int:
    """Fold the first events into all folds in memory; return their number."""
    return sum(amount for amount, _ in _folded(server, project, events))


def rebuild(server: Server, project: str, events: int) -> int:
    """Fold the first events into all folds and write the rows, one transaction per page; return their number."""
    done = 0
    with server.plain(project) as target:
        target.execute(_TABLES)
        for amount, found in _folded(server, project, events):
            with target.transaction(), target.cursor() as cursor:
                for own, changes in found:
                    _write(cursor, own, changes)
            done += amount
    return done


def _pages(server: Server, project: str, events: int) -> Iterator[list[tuple[Any, ...]]]:
    with server.plain(project) as source, source.transaction(), source.cursor(name="loop") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(_EVENTS, (events,))
        while page := cursor.fetchmany(_PAGE):
            yield page


def _folded(server: Server, project: str, events: int) -> Iterator[tuple[int, list[tuple[AnyFold, list[Change[Any]]]]]]:
    """Yield the number of events of each page, and the changes of each fold."""
    states: dict[str, dict[str, Any]] = {own.name: {} for own in ALL}
    wanted = columns(ALL).paths
    for page in _pages(server, project, events):
        rows = [_row(record, wanted.get(record[6], ())) for record in page]
        yield len(page), [(own, list(apply(own, states[own.name], rows))) for own in ALL]


def _row(record: tuple[Any, ...], paths: Sequence[str]) -> EventRow:
    position, stream, version, at, actor, _, kind, _, payload = record
    made = row_class(kind, tuple(paths))
    fields = (at_path(payload, path) for path in paths)
    return made(Position(position), version, stream, microseconds(at), actor, *fields)


def _write(cursor: psycopg.Cursor[Any], own: AnyFold, changes: Sequence[Change[Any]]) -> None:
    if not changes:
        return
    kept = changes if own.stream_of is None else list(latest(changes).values())
    rows = [(own.name, change.key, change.since, Jsonb(state_json(change.state))) for change in kept]
    cursor.executemany(_INSERT if own.stream_of is None else _UPSERT, rows)


def digest(server: Server, project: str, own: AnyFold) -> str:
    """Digest of the rows that `rebuild` wrote for a fold."""
    table = "loop_history" if own.stream_of is None else "loop_latest"
    with server.plain(project) as connection:
        rows = connection.execute(f"SELECT key, since, state FROM {table} WHERE projection = %s", [own.name])  # noqa: S608 one of two names
        return digest_of(rows)
