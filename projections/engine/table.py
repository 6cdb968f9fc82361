"""The rows of builds in the database: loaded by key, written in one statement or by binary COPY."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from .projection import AnyFold, Change
from .rows import EventRow
from .stored_states import encode_state

_FEW = 100
"""Maximum number of rows written by one statement; more are written by COPY."""

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_START = struct.Struct(">hiqi")
_MIDDLE = struct.Struct(">iqiqi")
_COLUMNS = "build, key, since, began, state"


class WrittenRow(msgspec.Struct, frozen=True, gc=False):
    """A row to write: the state as JSON, or None if the key has no state any more."""

    build: int
    key: str
    since: int
    began: int
    state: bytes | None


@dataclass(slots=True)
class StateCache:
    """Cached states of a build as of a position. `began` is, for folds keyed by stream, the first position of each key.

    If `is_whole`, keys that are not in the cache have no row.
    """

    position: int
    states: dict[str, Any] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)
    is_whole: bool = False

    def unknown(self, fold: AnyFold, rows: Iterable[tuple[str, EventRow]]) -> list[str]:
        """The keys that must be loaded from the table, because the cache does not know whether they have a row."""
        if self.is_whole:
            return []
        opens = fold.stream_of is not None  # the first event of a stream is the first of its key
        first: dict[str, bool] = {}
        for key, row in rows:
            first.setdefault(key, opens and row.version == 1)
        return [key for key, is_new in first.items() if not is_new and key not in self.states and key not in self.began]

    def take(self, fold: AnyFold, rows: Iterable[Recalled]) -> None:
        """Add loaded rows to the cache."""
        for row in rows:
            self.began[row.key] = row.began
            if row.state is not None:
                self.states[row.key] = fold.parse(row.state)

    def forget(self, most: int, but: Set[str]) -> None:
        """If there are more than twice `most` states, drop the oldest until `most` remain, but never keys in `but`."""
        if len(self.states) <= 2 * most:
            return
        self.is_whole = False
        gone = [key for key in islice(self.states, len(self.states) - most) if key not in but]
        for key in gone:
            del self.states[key]
        self.began = {key: since for key, since in self.began.items() if key in self.states or key in but}


class Recalled(msgspec.Struct, frozen=True, gc=False):
    """The newest row of a key, with its state as JSON text."""

    build: int
    key: str
    began: int
    state: str | None


def recall(connection: Connection, wanted: Mapping[int, Collection[str]]) -> dict[int, list[Recalled]]:
    """Load the newest rows of keys, by build."""
    named = [(build, key) for build, keys in wanted.items() for key in keys]
    found: dict[int, list[Recalled]] = {build: [] for build in wanted}
    if named:
        rows = connection.exec_driver_sql(_RECALL, _two(named))
        for row in rows:
            found[row.build].append(Recalled(*row))
    return found


_RECALL = """SELECT w.build, w.key, r.began, r.state::text
    FROM unnest(%s::bigint[], %b::text[]) AS w (build, key) CROSS JOIN LATERAL (
        SELECT began, state FROM fold_rows r WHERE r.build = w.build AND r.key = w.key ORDER BY since DESC LIMIT 1) r"""


def rows_to_keep(
    build: int, fold: AnyFold, memory: StateCache, changes: Iterable[Change[Any]]
) -> tuple[list[WrittenRow], list[str]]:
    """The rows to write for changes, and the keys whose rows they replace (folds keyed by stream). Updates `memory`."""
    encode = encode_state
    if fold.stream_of is None:
        return [
            WrittenRow(build, c.key, c.since, c.since, None if c.state is None else encode(c.state)) for c in changes
        ], []
    newest: dict[str, Change[Any]] = {}
    began: dict[str, int] = {}
    for change in changes:
        newest[change.key] = change
        began.setdefault(change.key, change.since)
    replaced = [key for key in newest if key in memory.began]
    began.update((key, memory.began[key]) for key in replaced)
    memory.began.update(began)
    rows = [
        WrittenRow(build, key, c.since, began[key], None if c.state is None else encode(c.state))
        for key, c in newest.items()
    ]
    return rows, replaced


def replace_rows(connection: Connection, rows: Sequence[WrittenRow], replaced: Sequence[tuple[int, str]]) -> None:
    """Delete the rows of the replaced keys, and insert the new rows."""
    if len(rows) > _FEW or len(replaced) > _FEW:
        if replaced:
            connection.exec_driver_sql(_GONE, _two(replaced))
        copy(connection, rows)
    elif rows:
        values = (
            *_two(replaced),
            [row.build for row in rows],
            [row.key for row in rows],
            [row.since for row in rows],
            [row.began for row in rows],
            [None if row.state is None else row.state.decode() for row in rows],
        )
        connection.exec_driver_sql(_WRITE, values)


_GONE = """DELETE FROM fold_rows r USING unnest(%s::bigint[], %b::text[]) AS g (build, key)
    WHERE r.build = g.build AND r.key = g.key"""
_WRITE = f"""WITH gone AS ({_GONE})
    INSERT INTO fold_rows ({_COLUMNS}) SELECT build, key, since, began, state::json
    FROM unnest(%s::bigint[], %b::text[], %s::bigint[], %s::bigint[], %b::text[])
    AS r (build, key, since, began, state)"""  # noqa: S608 constants


def _two(replaced: Sequence[tuple[int, str]]) -> tuple[list[int], list[str]]:
    return [build for build, _ in replaced], [key for _, key in replaced]


def copy(connection: Connection, rows: Iterable[WrittenRow]) -> None:
    """Insert rows by binary COPY."""
    parts = [_HEADER]
    for row in rows:
        key = row.key.encode()
        length = -1 if row.state is None else len(row.state)
        parts += (
            _START.pack(5, 8, row.build, len(key)),
            key,
            _MIDDLE.pack(8, row.since, 8, row.began, length),
            row.state or b"",
        )
    parts.append(_TRAILER)
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    statement = f"COPY fold_rows ({_COLUMNS}) FROM STDIN (FORMAT BINARY)"
    try:
        with driver.cursor().copy(statement.encode()) as sink:
            sink.write(b"".join(parts))
    except psycopg.Error as error:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        raise (OperationalError if lost else DBAPIError)(statement, None, error) from error
