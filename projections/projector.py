"""The shell around the folds: reads the log once for all of them, writes rows and bookmark in one transaction.

The bookmark row is the lock: a batch locks it, folds on from it, and moves it. A second projector waits for that lock
and then sees a bookmark that is not the one its memory stands at, so it drops its memory and reads again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from eventlog.codec import decode
from eventlog.errors import CorruptRow, FlywheelError, NewerSchemaVersion
from eventlog.events import EVENT_TYPES
from eventlog.postgres import stored_row
from eventlog.store import Position

from . import ALL
from .projection import AnyFold, Change, Row, apply, key_of, latest, plain, row_of

_BATCH = 2000
_MOST_KEYS = 200_000


class Projector:
    """Keeps fold tables up to date with the log; remembers the states it folded last."""

    def __init__(self, engine: Engine, folds: Sequence[AnyFold] = ALL) -> None:
        self._engine = engine
        self._folds = {fold.name: fold for fold in folds}
        self._memory: dict[str, tuple[int, dict[str, Any]]] = {}

    def catch_up(self, upto: Position | None = None, *, progress: Callable[[int], None] | None = None) -> Position:
        """Fold everything up to `upto` (default: the head) and say how far that is. A parked fold stays where it is."""
        with self._engine.connect() as connection:
            self._open_bookmarks(connection)
            target = _head(connection) if upto is None else upto
            connection.commit()
            while True:
                reached = self._batch(connection, list(self._folds.values()), target)
                connection.commit()
                if reached is None:
                    return target
                if progress is not None:
                    progress(reached)

    def rebuild(self, names: Iterable[str]) -> None:
        """Throw the rows of these folds away and fold them again; readers see the old rows until it is done."""
        chosen = [self._folds[name] for name in sorted(names)]
        with self._engine.connect() as connection:
            self._open_bookmarks(connection)
            connection.commit()
            _lock(connection, chosen)
            for fold in chosen:
                name = {"p": fold.name, "v": fold.version}
                connection.execute(text("DELETE FROM fold_rows WHERE projection = :p AND version = :v"), name)
                connection.execute(
                    text(
                        "UPDATE bookmarks SET position = 0, parked_at = NULL, parked_error = NULL"
                        " WHERE projection = :p AND version = :v"
                    ),
                    name,
                )
                self._memory.pop(fold.name, None)
            target = _head(connection)
            while self._batch(connection, chosen, target) is not None:
                pass
            connection.commit()

    def _open_bookmarks(self, connection: Connection) -> None:
        connection.execute(
            text("""INSERT INTO bookmarks (projection, version, is_live)
                SELECT :p, :v, NOT EXISTS (SELECT FROM bookmarks WHERE projection = :p AND is_live)
                ON CONFLICT DO NOTHING"""),
            [{"p": fold.name, "v": fold.version} for fold in sorted(self._folds.values(), key=lambda f: f.name)],
        )

    def _batch(self, connection: Connection, folds: Sequence[AnyFold], target: Position) -> int | None:
        bookmarks = _lock(connection, folds, target)
        if not bookmarks:
            return None
        start = min(row.position for row in bookmarks)
        finish = min([target, *(row.position for row in bookmarks if row.position > start)])
        standing = [self._folds[row.projection] for row in bookmarks if row.position == start]
        rows, finish = _rows(connection, standing, start, finish)
        for fold in standing:
            self._fold(connection, fold, rows, start, finish)
        return finish

    def _fold(self, connection: Connection, fold: AnyFold, rows: Sequence[Row], start: int, finish: int) -> None:
        position, states = self._memory.pop(fold.name, (start, {}))
        if position != start or len(states) > _MOST_KEYS:
            states = {}
        savepoint = connection.begin_nested()
        met = _Met(rows)
        try:
            _recall(connection, fold, states, met)
            _write(connection, fold, list(apply(fold, states, met)))
            savepoint.commit()
        except OperationalError:
            raise  # the database's trouble, not the event's: nothing of this batch is kept, and the next try may do
        except Exception as error:  # noqa: BLE001 the park: one bad event stops one projection, not the others
            savepoint.rollback()
            _park(connection, fold, start, f"{_reason(error)}{met.where}")
            return
        self._memory[fold.name] = (finish, states)
        connection.execute(
            text("UPDATE bookmarks SET position = :to WHERE projection = :p AND version = :v AND position = :from"),
            {"to": finish, "from": start, "p": fold.name, "v": fold.version},
        )


class _Met:
    """Rows handed to a fold one by one, so that an error can be told from the row it was met at."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._last: Row | None = None

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self._last = row
            yield row
        self._last = None

    @property
    def where(self) -> str:
        """The row that was last handed out; nothing once all of them were taken."""
        return "" if self._last is None else f" (at position {self._last.position}, {self._last.type})"


def _lock(connection: Connection, folds: Sequence[AnyFold], target: Position | None = None) -> Sequence[Any]:
    """The bookmarks of these folds (that stand before `target`), locked in order of name, so that none deadlock."""
    return connection.execute(
        text("""SELECT projection, position FROM bookmarks
            WHERE (projection, version) IN (SELECT * FROM unnest(CAST(:p AS text[]), CAST(:v AS integer[])))
            AND (CAST(:target AS bigint) IS NULL OR parked_at IS NULL AND position < :target)
            ORDER BY projection FOR UPDATE"""),
        {"p": [fold.name for fold in folds], "v": [fold.version for fold in folds], "target": target},
    ).all()


def _head(connection: Connection) -> Position:
    found = connection.execute(text("SELECT position FROM events ORDER BY position DESC LIMIT 1")).scalar()
    return Position(found or 0)


def _rows(connection: Connection, folds: Sequence[AnyFold], start: int, finish: int) -> tuple[list[Row], int]:
    """The declared columns of the next batch, and the position it reaches."""
    paths = sorted({path for fold in folds for path in fold.paths})
    types = sorted({kind for fold in folds for kind in fold.reads})
    columns = [f"payload #> '{{{path.replace('.', ',')}}}' AS c{index}" for index, path in enumerate(paths)]
    old = [kind for kind in types if EVENT_TYPES[kind].schema_version > 1]
    found = connection.execute(
        text(f"""SELECT position, stream, version, at, actor, cause, type, schema_version, digest, chain,
            CASE WHEN type = ANY(:old) THEN payload::text END AS payload, {", ".join(columns)}
            FROM events WHERE position > :start AND position <= :finish AND type = ANY(:types)
            ORDER BY position LIMIT :page"""),  # noqa: S608 paths come from the folds' own code
        {"start": start, "finish": finish, "types": types, "old": old, "page": _BATCH},
    ).all()
    rows = [_row(row, paths) for row in found]
    return rows, (found[-1].position if len(found) == _BATCH else finish)


def _row(found: Any, paths: Sequence[str]) -> Row:
    fields: Mapping[str, Any] = {path: found[-len(paths) + index] for index, path in enumerate(paths)}
    expected = EVENT_TYPES[found.type].schema_version
    if found.schema_version > expected:
        fields = _Unreadable(NewerSchemaVersion(type=found.type, actual=found.schema_version, expected=expected))
    elif found.schema_version < expected:
        try:
            return row_of(decode(stored_row(found)), paths)
        except CorruptRow as error:
            fields = _Unreadable(error)
    return Row(found.position, found.stream, found.at, found.actor, found.type, fields)


class _Unreadable(dict[str, Any]):
    """The fields of an event that cannot be read: they stop the folds that ask for one, and no other."""

    def __init__(self, error: FlywheelError) -> None:
        super().__init__()
        self._error = error

    def __missing__(self, path: str) -> Any:
        raise self._error


def _recall(connection: Connection, fold: AnyFold, states: dict[str, Any], rows: Iterable[Row]) -> None:
    """Bring the states of keys that are not remembered from the table."""
    keys = {key_of(fold, row) for row in rows if row.type in fold.reads} - states.keys() - {None}
    if not keys:
        return
    found = connection.execute(
        text("""SELECT DISTINCT ON (key) key, state FROM fold_rows
            WHERE projection = :p AND version = :v AND key = ANY(:keys) ORDER BY key, since DESC"""),
        {"p": fold.name, "v": fold.version, "keys": sorted(key for key in keys if key is not None)},
    )
    for row in found:
        states[row.key] = fold.decode(row.state)


def _write(connection: Connection, fold: AnyFold, changes: Sequence[Change[Any]]) -> None:
    if not changes:
        return
    name = {"p": fold.name, "v": fold.version}
    if fold.stream_of is not None:
        changes = list(latest(changes).values())
        connection.execute(
            text("DELETE FROM fold_rows WHERE projection = :p AND version = :v AND key = ANY(:keys)"),
            {**name, "keys": [change.key for change in changes]},
        )
    body = json.dumps([{"key": c.key, "since": c.since, "state": plain(c.state)} for c in changes])
    connection.execute(
        text("""INSERT INTO fold_rows SELECT :p, :v, key, since, state
            FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (key text, since bigint, state jsonb)"""),
        {**name, "rows": body},
    )


def _park(connection: Connection, fold: AnyFold, start: int, reason: str) -> None:
    connection.execute(
        text("""UPDATE bookmarks SET parked_at = :at, parked_error = :reason
            WHERE projection = :p AND version = :v"""),
        {"at": start, "reason": reason, "p": fold.name, "v": fold.version},
    )


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, FlywheelError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a projection has read; `parked_at` and `parked_error` where it stopped."""

    projection: str
    version: int
    position: Position
    parked_at: int | None
    parked_error: str


def bookmarks(engine: Engine, folds: Sequence[AnyFold] = ALL) -> Iterator[Bookmark]:
    """The bookmark of each fold; one that has not begun stands at 0."""
    with engine.connect() as connection:
        found = {(row.projection, row.version): row for row in connection.execute(text("SELECT * FROM bookmarks"))}
    for fold in folds:
        row = found.get((fold.name, fold.version))
        if row is None:
            yield Bookmark(fold.name, fold.version, Position(0), None, "")
        else:
            error = row.parked_error or ""
            yield Bookmark(fold.name, fold.version, Position(row.position), row.parked_at, error)
