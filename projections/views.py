"""Typed reads of projections: get, find, as of a position, at least at a position.

One answer comes from one position, and `upto` says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import Engine, TextClause, text

from eventlog.store import EventStore, Position

from . import ALL
from .errors import NotThereYet, ProjectionParked
from .projection import Change, Fold, digest_changes, latest, replay
from .projector import Bookmark, Projector, bookmarks

S = TypeVar("S", bound=msgspec.Struct)

_MOST_STREAMS = 50
_ROWS = "SELECT key, since, state FROM fold_rows WHERE projection = :p AND version = :v"
_NEWEST = "SELECT DISTINCT ON (key) key, since, state FROM fold_rows WHERE projection = :p AND version = :v"


class Views(Protocol):
    """What rooms read: the state of folds at one position."""

    @property
    def upto(self) -> Position:
        """The position every answer is of."""
        ...

    def get(self, fold: Fold[S], key: str) -> S | None:
        """The state of a key, or None where nothing happened to it."""
        ...

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """All states whose key begins so, in order of key bytes."""
        ...

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """Every change of a key, oldest first (of a fold keyed by stream, only the latest)."""
        ...


@dataclass(frozen=True)
class ReplayedViews:
    """Views that fold the log on each read: the reference the table is tested against."""

    store: EventStore
    upto: Position

    def get(self, fold: Fold[S], key: str) -> S | None:
        """See Views.get."""
        return self.find(fold).get(key)

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        found = latest(self._changes(fold))
        return {key: found[key].state for key in sorted(found, key=str.encode) if key.startswith(prefix)}

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """See Views.history."""
        return tuple(change for change in self._changes(fold) if change.key == key)

    def _changes(self, fold: Fold[S]) -> tuple[Change[S], ...]:
        return replay(fold, self.store.read(upto=self.upto, types=tuple(fold.reads)))


@dataclass(frozen=True)
class PostgresViews:
    """Views over the projector's tables at one position.

    Of a fold keyed by stream the table holds only the latest state; a key that changed since is folded from its stream.
    """

    engine: Engine
    store: EventStore
    upto: Position
    parked: Mapping[str, Bookmark] = field(default_factory=dict)

    def get(self, fold: Fold[S], key: str) -> S | None:
        """See Views.get."""
        rows = self._select(fold, " AND key = :key", {"key": key})
        return next((change.state for change in rows), None)

    def find(self, fold: Fold[S], prefix: str = "") -> dict[str, S]:
        """See Views.find."""
        rows = {row.key: row.state for row in self._select(fold, " AND starts_with(key, :prefix)", {"prefix": prefix})}
        return {key: rows[key] for key in sorted(rows, key=str.encode)}

    def history(self, fold: Fold[S], key: str) -> tuple[Change[S], ...]:
        """See Views.history."""
        if fold.stream_of is not None:
            return tuple(self._select(fold, " AND key = :key", {"key": key}))
        return tuple(change for change in self._all(fold, " AND key = :key", {"key": key}))

    def changes(self, fold: Fold[S]) -> tuple[Change[S], ...]:
        """What `replay` gives for the same prefix, read from the table."""
        return tuple(self._all(fold, "", {}) if fold.stream_of is None else self._select(fold, "", {}))

    def _all(self, fold: Fold[S], where: str, values: dict[str, Any]) -> Iterator[Change[S]]:
        statement = text(_ROWS + " AND since <= :upto" + where + " ORDER BY since")
        return self._fetch(fold, statement, values)

    def _select(self, fold: Fold[S], where: str, values: dict[str, Any]) -> Iterator[Change[S]]:
        if fold.stream_of is None:
            statement = text(_NEWEST + " AND since <= :upto" + where + " ORDER BY key, since DESC")
            yield from self._fetch(fold, statement, values)
            return
        changes = list(self._fetch(fold, text(_ROWS + where), values))
        yield from (change for change in changes if change.since <= self.upto)
        yield from self._earlier(fold, {change.key for change in changes if change.since > self.upto})

    def _earlier(self, fold: Fold[S], keys: set[str]) -> Iterator[Change[S]]:
        """What keys that changed since were then: from their streams, or from the log where they are many."""
        if len(keys) > _MOST_STREAMS:
            found = replay(fold, self.store.read(types=tuple(fold.reads), upto=self.upto))
            yield from (change for change in found if change.key in keys)
        elif fold.stream_of is not None:
            for key in sorted(keys):
                yield from replay(fold, self.store.read(stream=fold.stream_of(key), upto=self.upto))

    def _fetch(self, fold: Fold[S], statement: TextClause, values: dict[str, Any]) -> Iterator[Change[S]]:
        name = {"p": fold.name, "v": fold.version, **values}
        if fold.stream_of is None:
            name["upto"] = self.upto
        self._refuse_parked(fold)
        with self.engine.connect() as connection:
            found = connection.execute(statement, name).all()
        for row in found:
            yield Change(row.key, Position(row.since), fold.decode(row.state))

    def _refuse_parked(self, fold: Fold[Any]) -> None:
        bookmark = self.parked.get(fold.name)
        if bookmark is not None and bookmark.parked_at is not None and self.upto > bookmark.parked_at:
            raise ProjectionParked(projection=fold.name, position=bookmark.parked_at, actual=bookmark.parked_error)


def at_least(
    projector: Projector, engine: Engine, store: EventStore, *, as_of: Position | None = None
) -> PostgresViews:
    """Views at `as_of` (default: the head), after folding that far. Raises NotThereYet.

    A projection that is parked before that position raises ProjectionParked when it is read; the others answer.
    """
    reached = projector.catch_up()
    if as_of is not None and as_of > reached:
        raise NotThereYet(expected=as_of, actual=reached)
    upto = reached if as_of is None else as_of
    parked = {bookmark.projection: bookmark for bookmark in bookmarks(engine) if bookmark.parked_at is not None}
    return PostgresViews(engine, store, upto, parked)


@dataclass(frozen=True, slots=True)
class Compared:
    """A projection rebuilt from the log beside the live one; `differs` names the first key that is not the same."""

    projection: str
    version: int
    rows: int
    rebuilt: str
    live: str
    differs: str | None

    @property
    def is_identical(self) -> bool:
        """Whether the digests are equal."""
        return self.rebuilt == self.live


def compare(views: PostgresViews, folds: tuple[Fold[Any], ...] = ALL) -> Iterator[Compared]:
    """Rebuild each fold from the log up to the views' position and compare digests with its table."""
    for fold in folds:
        rebuilt = replay(fold, views.store.read(upto=views.upto, types=tuple(fold.reads)))
        live = views.changes(fold)
        ours, theirs = digest_changes(rebuilt), digest_changes(live)
        differs = None if ours == theirs else _first_difference(rebuilt, live)
        yield Compared(fold.name, fold.version, len(rebuilt), ours, theirs, differs)


def _first_difference(rebuilt: tuple[Change[Any], ...], live: tuple[Change[Any], ...]) -> str:
    ours = {(change.key, change.since): change.state for change in rebuilt}
    theirs = {(change.key, change.since): change.state for change in live}
    keys = sorted(ours.keys() | theirs.keys())
    return next(f"{key} since {since}" for key, since in keys if ours.get((key, since)) != theirs.get((key, since)))
