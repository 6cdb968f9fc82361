"""Typed views of projections as of a position. All answers of a view are as of the position `upto`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection, Engine

from eventlog.store import EventStore, Position

from ..errors import NotThereYet, ProjectionParked
from .builds import LIVE, Bookmark, bookmarks
from .projection import Change, Fold, newest_states, replay
from .projector import Projector
from .withdrawal import states_of_streams

S = TypeVar("S", bound=msgspec.Struct)

_MOST_KEYS = 10_000

_EVERY = f"SELECT key, since, state::text FROM fold_rows WHERE build = {LIVE} AND since <= %s"  # noqa: S608 a constant
_NEWEST = f"""SELECT n.key, n.since, r.state FROM
    (SELECT key, max(since) AS since FROM fold_rows WHERE build = {LIVE} AND since <= %s {{where}} GROUP BY key) n
    CROSS JOIN LATERAL (SELECT state FROM fold_rows r
        WHERE r.build = {LIVE} AND r.key = n.key AND r.since = n.since LIMIT 1) r"""  # noqa: S608 a constant
_KEYS = f"""SELECT key FROM (SELECT DISTINCT key FROM fold_rows WHERE build = {LIVE} AND since <= %s) found
    WHERE key COLLATE "C" > %s ORDER BY key COLLATE "C" LIMIT {{most}}"""  # noqa: S608 a constant
_OF_STREAMS = f"""SELECT key, since, CASE WHEN since <= %s THEN state END AS state
    FROM fold_rows WHERE build = {LIVE} AND began <= %s {{where}}"""  # noqa: S608 a constant
_LINES = """SELECT string_agg(line, E'\n') FROM (
    SELECT concat('[', to_json(key), ',', since, ',', coalesce(state, 'null'), ']') AS line,
        (row_number() OVER ()) / 5000 AS part FROM ({found}) found) lines GROUP BY part"""
"""Returns many changes as few values, each of JSON lines, in no particular order."""


class Views(Protocol):
    """Read access to the states of folds at one position."""

    @property
    def upto(self) -> Position:
        """The position as of which the views answer."""
        ...

    def get(self, fold: Fold[S], key: str) -> S | None:
        """The state of a key, or None if it has none."""
        ...

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """All states whose key starts with a prefix, in order of key bytes."""
        ...

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """Every change of a key, oldest first; only the latest in a fold keyed by stream."""
        ...


def page_states(views: Views, fold: Fold[S], size: int) -> Iterator[dict[str, S]]:
    """All states in order of key bytes, in pages of at most `size`. PostgresViews holds only one page in memory."""
    if isinstance(views, PostgresViews):
        yield from views.pages(fold, size)
        return
    waiting = iter(views.find(fold).items())
    while page := dict(islice(waiting, size)):
        yield page


@dataclass(frozen=True)
class ReplayedViews:
    """Views that fold the log on each read: the reference implementation for tests of the tables."""

    store: EventStore
    upto: Position

    def get(self, fold: Fold[S], key: str) -> S | None:
        """See Views.get."""
        return self.find(fold).get(key)

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        return {key: state for key, state in newest_states(self.changes(fold)).items() if key.startswith(prefix)}

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """See Views.history."""
        return tuple(change for change in self.changes(fold) if change.key == key)

    def changes(self, fold: Fold[S]) -> tuple[Change[S], ...]:
        """See `replay`."""
        return replay(fold, self.store.read(upto=self.upto, types=fold.types))


def _many(connection: Connection, fold: Fold[S], statement: str, values: Sequence[Any]) -> list[Change[S]]:
    """The changes that a statement finds, in no particular order."""
    found = connection.exec_driver_sql(_LINES.format(found=statement), tuple(values))
    return [change for (lines,) in found for change in fold.parse_changes(lines)]


@dataclass(frozen=True)
class PostgresViews:
    """Views over the tables of the live builds, as of one position.

    The table of a fold keyed by stream holds only the latest state; a key that changed since is folded from its stream.
    """

    engine: Engine
    store: EventStore
    upto: Position
    parked: Mapping[str, Bookmark] = field(default_factory=dict)

    def get(self, fold: Fold[S], key: str) -> S | None:
        """See Views.get."""
        if fold.stream_of is not None:
            found = tuple(self._of_streams(fold, " AND key = %s", (key,)))
        else:
            found = tuple(self._rows(fold, _EVERY + " AND key = %s ORDER BY since DESC LIMIT 1", (self.upto, key)))
        return found[0].state if found else None

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        where, values = (" AND starts_with(key, %s)", (prefix,)) if prefix else ("", ())
        if fold.stream_of is not None:
            return newest_states(self._of_streams(fold, where, values))
        named = (fold.name, fold.version)
        asked = (*named, self.upto, *values, *named)
        with self._connection_for(fold) as connection:
            return newest_states(_many(connection, fold, _NEWEST.format(where=where), asked))

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """See Views.history."""
        if fold.stream_of is not None:
            return tuple(self._of_streams(fold, " AND key = %s", (key,)))
        return tuple(self._rows(fold, _EVERY + " AND key = %s ORDER BY since", (self.upto, key)))

    def pages(self, fold: Fold[S], size: int) -> Iterator[dict[str, S]]:
        """See page_states. Reads keys in batches of 10,000. Raises ValueError for a fold keyed by stream."""
        if fold.stream_of is not None:
            raise ValueError(f"{fold.name} is keyed by stream; expected a fold that is not")
        named, last = (fold.name, fold.version), ""
        statement = _NEWEST.format(where=" AND key = ANY(%s)")
        while True:
            with self._connection_for(fold) as connection:
                asked = (*named, self.upto, last)
                keys = list(connection.exec_driver_sql(_KEYS.format(most=_MOST_KEYS), asked).scalars())
            for start in range(0, len(keys), size):
                own = keys[start : start + size]
                with self._connection_for(fold) as connection:
                    found = newest_states(_many(connection, fold, statement, (*named, self.upto, own, *named)))
                if found:
                    yield found
            if len(keys) < _MOST_KEYS:
                return
            last = keys[-1]

    def changes(self, fold: Fold[S]) -> tuple[Change[S], ...]:
        """The result of `replay` for the same prefix, read from the table."""
        if fold.stream_of is not None:
            return tuple(self._of_streams(fold, "", ()))
        return tuple(self._rows(fold, _EVERY + " ORDER BY since", (self.upto,)))

    def _connection_for(self, fold: Fold[Any]) -> Connection:
        self.refuse_parked(fold)
        return self.engine.connect()

    def _rows(self, fold: Fold[S], statement: str, values: Sequence[Any]) -> Iterator[Change[S]]:
        """The changes that a statement finds, in order. The fold's name and version become its first parameters."""
        with self._connection_for(fold) as connection:
            found = connection.exec_driver_sql(statement, (fold.name, fold.version, *values)).all()
        for key, since, state in found:
            yield Change(key, since, None if state is None else fold.parse(state))

    def _of_streams(self, fold: Fold[S], where: str, values: Sequence[Any]) -> Iterator[Change[S]]:
        asked = (self.upto, fold.name, fold.version, self.upto, *values)
        with self._connection_for(fold) as connection:
            found = _many(connection, fold, _OF_STREAMS.format(where=where), asked)
            yield from (change for change in found if change.since <= self.upto)
            later = [change.key for change in found if change.since > self.upto]
            if later:
                yield from states_of_streams(connection, self.store, fold, later, self.upto)

    def refuse_parked(self, fold: Fold[Any]) -> None:
        """Raise ProjectionParked if the fold is parked before this position."""
        bookmark = self.parked.get(fold.name)
        if bookmark is not None and bookmark.parked_at is not None and self.upto > bookmark.parked_at:
            raise ProjectionParked(projection=fold.name, position=bookmark.parked_at, actual=bookmark.parked_error)


def catch_up_views(
    projector: Projector, engine: Engine, store: EventStore, *, as_of: Position | None = None
) -> PostgresViews:
    """Fold up to the head, and return views at `as_of` (default: the head). Raises NotThereYet.

    Reading a projection that is parked before that position raises ProjectionParked.
    """
    reached = projector.catch_up()
    if as_of is not None and as_of > reached:
        raise NotThereYet(expected=as_of, actual=reached)
    upto = reached if as_of is None else as_of
    parked = {bookmark.projection: bookmark for bookmark in bookmarks(engine) if bookmark.parked_at is not None}
    return PostgresViews(engine, store, upto, parked)
