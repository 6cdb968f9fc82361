"""States that a process keeps between two reads of a fold, so that the next read costs what has changed since."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection

from eventlog.store import EventStore, Position

from .builds import LIVE
from .projection import AnyFold, rows_with_keys
from .reader import PAGE, columns, read_page


class BuildStates(NamedTuple):
    """All states of a build at the position of the last read, in order of key bytes; no position if none was read."""

    build: int | None
    position: Position | None
    states: dict[str, Any]


KeptStates = dict[tuple[str, int], BuildStates]
"""By name and version of a fold."""


def find_kept(connection: Connection, kept: KeptStates, fold: AnyFold) -> BuildStates:
    """Kept states of a fold's live build. A rebuild makes another build, because this one's table may be wrong."""
    name = (fold.name, fold.version)
    build = connection.exec_driver_sql(f"SELECT {LIVE}", name).scalar()
    last = kept.get(name)
    return last if last is not None and last.build == build else BuildStates(build, None, {})


def changed_keys(
    connection: Connection, store: EventStore, fold: AnyFold, after: Position, upto: Position
) -> frozenset[str] | None:
    """The keys with events in (after, upto]; None if any key may differ: much happened, or something was left out."""
    if upto - after > PAGE:
        return None
    rows = read_page(connection, store, columns((fold,)), after, upto) if upto > after else []
    if any(row.type in fold.markers for row in rows):
        return None
    return frozenset(key for key, _ in rows_with_keys(fold, rows))
