"""Typed views of projections as of a position. All answers of a view are as of the position `upto`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection, Engine

from eventlog.database import read_connection
from eventlog.store import EventStore, Position

from ..errors import NotThereYet, ProjectionParked
from .builds import LIVE, Bookmark, parked_bookmarks
from .kept_states import BuildStates, KeptStates, changed_keys, find_kept
from .key_ranges import keys_before, keys_within
from .paging import PAGE
from .projection import Change, Fold, newest_states, replay
from .projector import Projector
from .withdrawal import states_of_streams

S = TypeVar("S", bound=msgspec.Struct)

_EVERY = f"SELECT key, since, state::text FROM fold_rows WHERE build = {LIVE} AND since <= %s"  # noqa: S608 a constant
_PAGE = f"""WITH RECURSIVE keys (key) AS (
        (SELECT key FROM fold_rows WHERE build = {LIVE} {{where}} ORDER BY key LIMIT 1)
        UNION ALL
        SELECT (SELECT r.key FROM fold_rows r WHERE r.build = {LIVE} AND r.key > k.key {{below}} ORDER BY r.key LIMIT 1)
        FROM keys k WHERE k.key IS NOT NULL)
    SELECT k.key, r.since, r.state::text AS state
    FROM (SELECT key FROM keys WHERE key IS NOT NULL LIMIT %s) k
    LEFT JOIN LATERAL (SELECT since, state FROM fold_rows f WHERE f.build = {LIVE} AND f.key = k.key AND f.since <= %s
        ORDER BY f.since DESC LIMIT 1) r ON true
    ORDER BY k.key"""  # noqa: S608 a constant
"""Goes from key to key in the primary key, past every earlier state of each."""
_PICK = f"""SELECT w.key, r.since, r.state FROM unnest(%s::text[]) AS w (key) CROSS JOIN LATERAL (
    SELECT f.since, f.state FROM fold_rows f WHERE f.build = {LIVE} AND f.key = w.key AND f.since <= %s
    ORDER BY f.since DESC LIMIT 1) r"""  # noqa: S608 a constant
_OF_STREAMS = f"""SELECT key, since, CASE WHEN since <= %s THEN state END AS state
    FROM fold_rows WHERE build = {LIVE} AND began <= %s {{where}}"""  # noqa: S608 a constant
_OF_PREFIXES = f"""SELECT r.* FROM unnest(%s::text[], %s::text[]) AS p (low, high) CROSS JOIN LATERAL
    ({_OF_STREAMS.format(where="AND key >= p.low AND key < p.high OFFSET 0")}) r"""  # noqa: S608 a constant
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

    def find_each(self, fold: Fold[S], prefixes: Collection[str]) -> dict[str, S]:
        """All states whose key starts with one of these prefixes, in order of key bytes."""
        ...

    def page(self, fold: Fold[S], after: str | None = None, limit: int = PAGE, prefix: str = "") -> dict[str, S]:
        """The first `limit` states that `find` gives whose key sorts after `after`; fewer only if no more follow."""
        ...

    def pick(self, fold: Fold[S], keys: Collection[str]) -> dict[str, S]:
        """The states of those of these keys that have one, in order of key bytes."""
        ...

    def history(self, fold: Fold[S], key: str, after: int = 0, limit: int | None = None) -> tuple[Change[S], ...]:
        """Changes of a key after a position, oldest first, `limit` at most; by stream only the latest is kept."""
        ...


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

    def find_each(self, fold: Fold[S], prefixes: Collection[str]) -> dict[str, S]:
        """See Views.find_each."""
        return {key: state for key, state in self.find(fold).items() if key.startswith(tuple(prefixes))}

    def page(self, fold: Fold[S], after: str | None = None, limit: int = PAGE, prefix: str = "") -> dict[str, S]:
        """See Views.page."""
        start = None if after is None else after.encode()
        found = self.find(fold, prefix).items()
        return dict(islice(((key, state) for key, state in found if start is None or key.encode() > start), limit))

    def pick(self, fold: Fold[S], keys: Collection[str]) -> dict[str, S]:
        """See Views.pick."""
        return {key: state for key, state in self.find(fold).items() if key in keys}

    def history(self, fold: Fold[S], key: str, after: int = 0, limit: int | None = None) -> tuple[Change[S], ...]:
        """See Views.history."""
        found = (change for change in self.changes(fold) if change.key == key and change.since > after)
        return tuple(islice(found, limit))

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
    Views of one process share what it has `kept`.
    """

    engine: Engine
    store: EventStore
    upto: Position
    parked: Mapping[str, Bookmark] = field(default_factory=dict)
    kept: KeptStates = field(default_factory=dict, repr=False, compare=False)

    def get(self, fold: Fold[S], key: str) -> S | None:
        """See Views.get."""
        if fold.stream_of is not None:
            found = tuple(self._of_streams(fold, " AND key = %s", (key,)))
        else:
            found = tuple(self._rows(fold, _EVERY + " AND key = %s ORDER BY since DESC LIMIT 1", (self.upto, key)))
        return found[0].state if found else None

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        if fold.stream_of is not None:
            return newest_states(self._of_streams(fold, *keys_within(prefix)))
        if fold.is_kept and not prefix:
            return dict(self._kept_states(fold))
        return self._next_page(fold, None, None, prefix)[1]

    def find_each(self, fold: Fold[S], prefixes: Collection[str]) -> dict[str, S]:
        """See Views.find_each."""
        wanted = sorted(set(prefixes), key=str.encode)
        found: dict[str, S] = {}
        if fold.stream_of is None or not all(keys_before(prefix, "key")[1] for prefix in wanted):
            for prefix in wanted:
                found |= self.find(fold, prefix)
            return found
        for start in range(0, len(wanted), PAGE):
            lows = wanted[start : start + PAGE]
            highs = [after for prefix in lows for after in keys_before(prefix, "key")[1]]
            asked = (lows, highs, self.upto, fold.name, fold.version, self.upto)
            with self._connection_for(fold) as connection:
                kept = _many(connection, fold, _OF_PREFIXES, asked)
                found |= newest_states(self._as_of(connection, fold, kept))
        return found

    def page(self, fold: Fold[S], after: str | None = None, limit: int = PAGE, prefix: str = "") -> dict[str, S]:
        """See Views.page. Reads no row beyond the page, and of a page in the past those whose key began later."""
        found: dict[str, S] = {}
        while (missing := limit - len(found)) > 0:
            keys, states = self._next_page(fold, after, max(missing, 1), prefix)
            found |= states
            if len(keys) < missing:
                break
            after = keys[-1]
        return found

    def pick(self, fold: Fold[S], keys: Collection[str]) -> dict[str, S]:
        """See Views.pick."""
        wanted = sorted(set(keys), key=str.encode)
        found: dict[str, S] = {}
        for start in range(0, len(wanted), PAGE):
            some = wanted[start : start + PAGE]
            with self._connection_for(fold) as connection:
                if fold.stream_of is not None:
                    kept = self._latest_changes(connection, fold, " AND key = ANY(%s)", (some,))
                    found |= newest_states(self._as_of(connection, fold, kept))
                else:
                    found |= newest_states(_many(connection, fold, _PICK, (some, fold.name, fold.version, self.upto)))
        return found

    def history(self, fold: Fold[S], key: str, after: int = 0, limit: int | None = None) -> tuple[Change[S], ...]:
        """See Views.history."""
        if fold.stream_of is not None:
            latest = (change for change in self._of_streams(fold, " AND key = %s", (key,)) if change.since > after)
            return tuple(islice(latest, limit))
        statement = _EVERY + " AND key = %s AND since > %s ORDER BY since LIMIT %s"
        return tuple(self._rows(fold, statement, (self.upto, key, after, limit)))

    def changes(self, fold: Fold[S]) -> tuple[Change[S], ...]:
        """The result of `replay` for the same prefix, read from the table."""
        if fold.stream_of is not None:
            return tuple(self._of_streams(fold, "", ()))
        return tuple(self._rows(fold, _EVERY + " ORDER BY since", (self.upto,)))

    def _kept_states(self, fold: Fold[S]) -> dict[str, S]:
        """All states of a fold, from those of its build that this process read last, unless at a later position."""
        changed = None
        with self._connection_for(fold) as connection:
            last = find_kept(connection, self.kept, fold)
            if last.position is not None and last.position <= self.upto:
                changed = changed_keys(connection, self.store, fold, last.position, self.upto)
        states = last.states
        if changed is None:
            states = self._next_page(fold, None, None, "")[1]
        elif changed:
            left = {key: state for key, state in states.items() if key not in changed}
            states = dict(sorted((left | self.pick(fold, changed)).items(), key=lambda item: item[0].encode()))
        if last.position is None or last.position <= self.upto:
            self.kept[fold.name, fold.version] = BuildStates(last.build, self.upto, states)
        return states

    def _next_page(
        self, fold: Fold[S], after: str | None, limit: int | None, prefix: str
    ) -> tuple[Sequence[str], dict[str, S]]:
        """The next `limit` keys of the table (None: all), and the states that these have at the position."""
        where, values = keys_within(prefix, after)
        with self._connection_for(fold) as connection:
            if fold.stream_of is not None:
                kept = self._latest_changes(connection, fold, f"{where} ORDER BY key LIMIT %s", (*values, limit))
                keys = sorted((change.key for change in kept), key=str.encode)
                return keys, newest_states(self._as_of(connection, fold, kept))
            below, bounds = keys_before(prefix, "r.key")
            named = (fold.name, fold.version)
            asked = (*named, *values, *named, *bounds, limit, *named, self.upto)
            rows = connection.exec_driver_sql(_PAGE.format(where=where, below=below), asked).all()
        found = {row.key: fold.parse(row.state) for row in rows if row.state is not None}
        return [row.key for row in rows], found

    def _connection_for(self, fold: Fold[Any]) -> Connection:
        self.refuse_parked(fold)
        return read_connection(self.engine)

    def _rows(self, fold: Fold[S], statement: str, values: Sequence[Any]) -> Iterator[Change[S]]:
        """The changes that a statement finds, in order. The fold's name and version become its first parameters."""
        with self._connection_for(fold) as connection:
            found = connection.exec_driver_sql(statement, (fold.name, fold.version, *values)).all()
        for key, since, state in found:
            yield Change(key, since, None if state is None else fold.parse(state))

    def _of_streams(self, fold: Fold[S], where: str, values: Sequence[Any]) -> Iterator[Change[S]]:
        with self._connection_for(fold) as connection:
            yield from self._as_of(connection, fold, self._latest_changes(connection, fold, where, values))

    def _latest_changes(
        self, connection: Connection, fold: Fold[S], where: str, values: Sequence[Any]
    ) -> list[Change[S]]:
        """The rows of a fold keyed by stream whose keys had begun, each with its latest change, even a later one."""
        asked = (self.upto, fold.name, fold.version, self.upto, *values)
        return _many(connection, fold, _OF_STREAMS.format(where=where), asked)

    def _as_of(self, connection: Connection, fold: Fold[S], kept: Sequence[Change[S]]) -> Iterator[Change[S]]:
        """The newest change of each of these keys up to the position; those that changed later are folded again."""
        yield from (change for change in kept if change.since <= self.upto)
        later = {change.key for change in kept if change.since > self.upto}
        if later:
            again = states_of_streams(connection, self.store, fold, sorted(later), self.upto)
            yield from (change for change in again if change.key in later)

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
    reached, may_be_parked = projector.reach()
    if as_of is not None and as_of > reached:
        raise NotThereYet(expected=as_of, actual=reached)
    upto = reached if as_of is None else as_of
    parked = parked_bookmarks(engine) if may_be_parked else {}
    return PostgresViews(engine, store, upto, parked, projector.kept_states)
