"""The loop that anybody would write: server-side cursor, payload to dict, the same folds, rows by executemany."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.log.server import Server
from eventlog.chain import microseconds
from eventlog.store import Position
from projections import ALL
from projections.projection import AnyFold, Change, apply, digest_of, latest, plain
from projections.rows import Row, at_path, row_class

_PAGE = 2000
_EVENTS = (
    "SELECT position, stream, version, at, actor, cause, type, schema_version, payload FROM events ORDER BY position"
)
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


def transport(server: Server, project: str) -> int:
    """Bring every event over as a dict and do nothing with it: how many."""
    with server.plain(project) as connection, connection.transaction(), connection.cursor(name="loop") as cursor:
        cursor.itersize = _PAGE
        return sum(1 for _ in cursor.execute(_EVENTS))


def rebuild(server: Server, project: str, folds: Sequence[AnyFold] = ALL) -> int:
    """Fold every event into all folds and write the rows: how many events."""
    events, states = 0, {fold.name: dict[str, Any]() for fold in folds}
    reading = {kind: [fold for fold in folds if kind in fold.reads] for fold in folds for kind in fold.reads}
    wanted = {kind: sorted({path for fold in some for path in fold.reads[kind]}) for kind, some in reading.items()}
    with server.plain(project) as source, server.plain(project) as target:
        target.execute(_TABLES)
        with source.transaction(), target.transaction(), source.cursor(name="loop") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(_EVENTS)
            while page := cursor.fetchmany(_PAGE):
                rows = [_row(record, wanted.get(record[6], ())) for record in page]
                for fold in folds:
                    _write(target, fold, list(apply(fold, states[fold.name], _read(fold, rows, reading))))
                events += len(page)
    return events


def _read(fold: AnyFold, rows: Sequence[Row], reading: Mapping[str, list[AnyFold]]) -> list[Row]:
    return [row for row in rows if fold in reading.get(row.type, ())]


def _row(record: tuple[Any, ...], paths: Sequence[str]) -> Row:
    position, stream, version, at, actor, _, kind, _, payload = record
    made = row_class(kind, tuple(paths))
    fields = (at_path(payload, path) for path in paths)
    return made(Position(position), version, stream, microseconds(at), actor, *fields)


def _write(target: psycopg.Connection[Any], fold: AnyFold, changes: Sequence[Change[Any]]) -> None:
    if not changes:
        return
    kept = changes if fold.stream_of is None else list(latest(changes).values())
    rows = [(fold.name, change.key, change.since, Jsonb(plain(change.state))) for change in kept]
    with target.cursor() as cursor:
        cursor.executemany(_INSERT if fold.stream_of is None else _UPSERT, rows)


def digest(server: Server, project: str, fold: AnyFold) -> str:
    """The digest of what the loop wrote for a fold."""
    table = "loop_history" if fold.stream_of is None else "loop_latest"
    with server.plain(project) as connection:
        rows = connection.execute(f"SELECT key, since, state FROM {table} WHERE projection = %s", [fold.name])  # noqa: S608 one of two names
        return digest_of(rows)
