"""The event store in PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from .append_rule import judge_group
from .appending import Cursor, commit, commit_together
from .archive.segments import live_from, segments
from .codec import EncodedAppend, decode, encode_append
from .database import first_line, project_schema, read_connection, single_statements, translate_error
from .errors import LockLost, LogUnavailable
from .group_commit import MOST_WAITING, GroupCommit
from .markers import find_markers
from .statements import choose_statement, stored_row
from .store import START, Acceptance, Append, Outcome, Position, Recorded, Rejected, Stored, Until

T = TypeVar("T")

_BATCH = 1000
_MOST = 2**62
_POLL_S = 0.5
_PAUSES_S = (0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 7, 7)
"""Pauses before each attempt to reconnect to a lost database: half a minute in all, then it fails."""
_LOST = (psycopg.OperationalError, psycopg.InterfaceError, OperationalError, InterfaceError)

_COUNTS = text("""SELECT type, count(*) AS events, (SELECT coalesce(max(upto), 0) FROM dropped) AS dropped
    FROM events GROUP BY type""")
_FIRST_OF = text("SELECT position - events + 1 FROM stream_versions WHERE stream = :stream ORDER BY version LIMIT 1")
_OF_TYPE = "EXISTS (SELECT FROM events e WHERE e.type = {kind} AND e.position > %(after)b)"
"""Names its type in the statement, as the planner expects an average number of rows for a type in a variable."""
_AT = text("""WITH RECURSIVE search (low, high) AS (
        SELECT min(position) - 1, max(position) FROM events
        UNION ALL
        SELECT CASE WHEN e.at <= :at THEN e.position ELSE low END,
               CASE WHEN e.at <= :at THEN high ELSE e.position - 1 END
        FROM search JOIN events e ON e.position = (low + high + 1) / 2 WHERE low < high
    ) SELECT low FROM search WHERE low = high""")
"""Binary search for the last position at or before a time, in one statement: recorded times never decrease."""


@dataclass(frozen=True, slots=True)
class LockingSession:
    """A database session that holds an advisory lock: its binary cursor in autocommit mode, and what is locked."""

    cursor: Cursor
    lock: str
    turn: Lock = field(default_factory=Lock, repr=False, compare=False)

    @contextmanager
    def use(self) -> Iterator[Cursor]:
        """The cursor, for one thread at a time. Raises LockLost once the connection is lost."""
        with self.turn:
            try:
                yield self.cursor
            except psycopg.Error as error:
                if self.cursor.connection.closed:
                    raise LockLost(lock=self.lock, actual=first_line(error)) from error
                raise


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """An EventStore in the project's schema; the migrations define its guards.

    Positions that were archived and dropped are read from `archive`, the folder of all projects' segments. A read of
    them raises ArchiveMissing if `archive` is None or lacks the segment. With a `session`, every append is made in it:
    the server releases the session's lock only after the session has ended, so no append is made without the lock.
    """

    engine: Engine
    archive: Path | None = None
    most_waiting: int = MOST_WAITING
    session: LockingSession | None = None
    group: GroupCommit = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", GroupCommit(self._commit, self.most_waiting))

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        """See EventStore.append. Concurrent threads share a transaction. Raises LogFull, LogBusy, LockLost."""
        return self.append_encoded([encode_append(request) for request in requests])

    def append_together(self, requests: Sequence[Append]) -> Sequence[Acceptance] | Rejected:
        """See EventStore.append_together. A group has a transaction of its own. Raises LogFull, LogBusy, LockLost."""
        encoded = [encode_append(request) for request in requests]
        return judge_group(self.group.append(encoded, together=True) if encoded else [])

    def append_encoded(self, requests: Sequence[EncodedAppend]) -> Sequence[Outcome]:
        """Append requests that are already encoded."""
        return self.group.append(requests) if requests else []

    def _commit(self, requests: Sequence[EncodedAppend], *, together: bool) -> Sequence[Outcome]:
        """Commit in one transaction. Retries once on a lost connection, which the append keys make safe."""
        if self.session is not None:
            return self._try_in_session(self.session, requests, together=together)
        return self._try_twice(lambda cursor: _write(cursor, requests, together=together))

    def _try_twice(self, act: Callable[[Cursor], T]) -> T:
        """What `act` returns; on a lost connection it is tried once more, on a new one."""
        try:
            with single_statements(self.engine) as cursor:
                return act(cursor)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self.engine.dispose()  # the pool's other connections were lost too
        with single_statements(self.engine) as cursor:
            return act(cursor)

    def _try_in_session(
        self, session: LockingSession, requests: Sequence[EncodedAppend], *, together: bool
    ) -> Sequence[Outcome]:
        try:
            with session.use() as cursor:
                return _write(cursor, requests, together=together)
        except psycopg.Error as error:
            raise translate_error(error, is_lost=False) from error

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Iterator[Recorded]:
        """See EventStore.read."""
        for row in self._rows(after, upto, stream, types, actor):
            if actor is not None and row.actor != actor:
                continue  # of one stream, or from the archive
            recorded = decode(row)
            if stream is None or types is None or recorded.event.type in types:
                yield recorded

    def read_stored(
        self, *, after: Position = START, upto: Position | None = None, types: Sequence[str] | None = None
    ) -> Iterator[Stored]:
        """See EventStore.read_stored."""
        return self._rows(after, upto, None, types)

    def _rows(
        self,
        after: Position,
        upto: Position | None,
        stream: str | None,
        types: Sequence[str] | None,
        actor: str | None = None,
    ) -> Iterator[Stored]:
        """Rows of a stream, or of some types; of the other actors none but those of a stream and of the archive."""
        statement, named = choose_statement(stream, types, actor)
        last = self.head() if upto is None else upto
        while after < last:
            values: dict[str, Any] = {"after": after, "upto": last, "page": _BATCH, **named}
            with read_connection(self.engine) as connection:
                rows = connection.execute(statement, values).all()
                live = live_from(connection)  # read after the rows, so that a drop in between is noticed
            if after + 1 < live:
                from .archive.read import read_archived

                border = Position(min(last, live - 1))
                yield from read_archived(self.engine, self.archive, after, border, stream=stream, types=types)
                after = border
                continue
            for row in rows:
                yield stored_row(row)
            if len(rows) < _BATCH:
                return
            after = Position(rows[-1].position)

    def disowned_positions(self, upto: Position | None = None) -> frozenset[Position]:
        """See EventStore.disowned_positions. Needs no archive."""
        with read_connection(self.engine) as connection:
            found = find_markers(connection, self, START, _MOST if upto is None else upto, ("EventsDisowned",))
        return frozenset(Position(position) for marker in found for position in marker.named)

    def head(self) -> Position:
        """See EventStore.head."""
        with read_connection(self.engine) as connection:
            found = connection.execute(text("SELECT position FROM events ORDER BY position DESC LIMIT 1")).scalar()
        return Position(found or 0)

    def may_hold(self, types: Sequence[str], *, after: Position) -> bool:
        """True if there is an event of one of these types after a position, or if archived events may be one."""
        statement = holding_statement(tuple(types))
        found = self._try_twice(lambda cursor: cursor.execute(statement, {"after": after}, prepare=True).fetchone())
        return found is None or bool(found[0])

    def first_of(self, stream: str) -> Recorded | None:
        """The first event of a stream, or None if it has none. Of an archive only its own segment is read."""
        with read_connection(self.engine) as connection:
            found = connection.execute(_FIRST_OF, {"stream": stream}).scalar()
        return None if found is None else next(self.read(after=Position(found - 1), upto=Position(found)))

    def position_at(self, moment: datetime) -> Position:
        """The last position recorded at or before a moment, or 0. A moment without a time zone is UTC."""
        at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        with read_connection(self.engine) as connection:
            found = connection.execute(_AT, {"at": at}).scalar()
            live = live_from(connection)
        if live > 1 and (found is None or found < live):
            from .archive.read import position_at

            return position_at(self.engine, self.archive, at, live)
        return Position(found or 0)

    def counts(self) -> dict[str, int]:
        """Number of events of each type. Counts of dropped positions come from the segment manifests."""
        with read_connection(self.engine) as connection:
            live = connection.execute(_COUNTS).all()
        found = Counter({row.type: row.events for row in live})
        dropped = Position(live[0].dropped if live else 0)
        for manifest in segments(self.engine, upto=dropped) if dropped else ():
            for file in manifest.files:
                found.update(file.types)
        return dict(found)

    def subscribe(self, *, after: Position, until: Until) -> Iterator[Sequence[Recorded]]:
        """See EventStore.subscribe. Wakes on NOTIFY and also polls, so a lost notification delays it by half a second.

        After a lost connection it reconnects and continues after the last batch. Raises LogUnavailable if the database
        is unreachable for half a minute.
        """
        last, pauses = after, iter(_PAUSES_S)
        while True:
            try:
                for batch in self._listen(last, until):
                    pauses = iter(_PAUSES_S)
                    if batch:
                        last = batch[-1].position
                        yield batch
            except _LOST as error:
                pause = next(pauses, None)
                if pause is None:
                    raise LogUnavailable(actual=first_line(error)) from error
                sleep(pause)
            else:
                return

    def _listen(self, last: Position, until: Until) -> Iterator[Sequence[Recorded]]:
        """Batches while one connection listens; an empty batch for each poll that finds nothing new."""
        with _listener(self.engine) as listener:
            while True:
                batch = list(self.read(after=last, upto=Position(min(self.head(), last + _BATCH))))
                last = batch[-1].position if batch else last
                yield batch
                if batch:
                    continue
                if until(last):
                    return
                if self.head() <= last:
                    for _ in listener.notifies(timeout=_POLL_S, stop_after=1):
                        pass


@cache
def holding_statement(types: tuple[str, ...]) -> sql.Composed:
    """The statement that says whether events after a position, or archived ones, may be of these types."""
    found = [sql.SQL(_OF_TYPE).format(kind=sql.Literal(kind)) for kind in types]
    dropped = sql.SQL("EXISTS (SELECT FROM dropped WHERE upto > %(after)b)")
    return sql.SQL("SELECT {}").format(sql.SQL(" OR ").join([*found, dropped]))


def _write(cursor: Cursor, requests: Sequence[EncodedAppend], *, together: bool) -> Sequence[Outcome]:
    return commit_together(cursor, requests) if together else commit(cursor, requests)


def _listener(engine: Engine) -> psycopg.Connection[Any]:
    with engine.connect():  # waits for a lost database as long as the engine is patient
        pass
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(f'LISTEN "{project_schema(engine)}/events"')
    return connection
