"""Fold projections again from the log, and compare them with their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eventlog.database import read_connection
from eventlog.store import Position

from .. import ALL
from .builds import bookmarks
from .projection import DISOWNING, Change, Fold, digest_changes, replay
from .reader import read_markers
from .views import PostgresViews


@dataclass(frozen=True, slots=True)
class Compared:
    """Digests of a projection refolded up to `upto` and of its live table.

    `differs` is the first differing key, or says that the bookmark is ahead of the log.
    """

    projection: str
    version: int
    upto: Position
    rows: int
    rebuilt: str
    live: str
    differs: str | None

    @property
    def is_identical(self) -> bool:
        """True if the digests are equal and the bookmark is not ahead of the log."""
        return self.rebuilt == self.live and self.differs is None


def compare(views: PostgresViews, folds: Sequence[Fold[Any]] = ALL) -> Iterator[Compared]:
    """Fold each projection again up to the views' position, and compare its digest with that of its table.

    A bookmark ahead of the head is a difference: the events that come up to there would never be folded. The table of a
    fold keyed by stream holds only the latest states, so it is compared at the table's position.
    """
    places = {found.projection: found.position for found in bookmarks(views.engine, folds)}
    head = views.store.head()
    with read_connection(views.engine) as connection:
        disowns = any(row.type == DISOWNING for row in read_markers(connection, views.store, 0, head))
    for fold in folds:
        upto, live = (views.upto, views.changes(fold)) if fold.stream_of is None else _latest(views, fold)
        rebuilt = replay(fold, views.store.read(upto=upto, types=fold.types), disowns=disowns)
        ours, theirs = digest_changes(rebuilt), digest_changes(live)
        differs = None if ours == theirs else _first_difference(rebuilt, live)
        if places[fold.name] > head:
            differs = f"its bookmark {places[fold.name]}, which is ahead of the log's head {head}"
        yield Compared(fold.name, fold.version, upto, len(rebuilt), ours, theirs, differs)


def _latest(views: PostgresViews, fold: Fold[Any]) -> tuple[Position, tuple[Change[Any], ...]]:
    """The position and the contents of the live table of a fold keyed by stream, from one snapshot."""
    with read_connection(views.engine) as connection:
        rows = connection.exec_driver_sql(
            """SELECT b.position, r.key, r.since, r.state::text FROM builds b LEFT JOIN fold_rows r USING (build)
            WHERE b.projection = %s AND b.version = %s AND b.is_live""",
            (fold.name, fold.version),
        ).all()
    upto = Position(rows[0][0] if rows else 0)
    replace(views, upto=max(upto, views.upto)).refuse_parked(fold)
    found = (Change(key, since, None if state is None else fold.parse(state)) for _, key, since, state in rows if key)
    return upto, tuple(found)


def _first_difference(rebuilt: Sequence[Change[Any]], live: Sequence[Change[Any]]) -> str:
    ours = {(change.key, change.since): change.state for change in rebuilt}
    theirs = {(change.key, change.since): change.state for change in live}
    keys = sorted(ours.keys() | theirs.keys())
    missing = object()
    return next(
        f"{key} since {since}"
        for key, since in keys
        if ours.get((key, since), missing) != theirs.get((key, since), missing)
    )
