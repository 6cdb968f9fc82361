"""States that a process keeps between two reads of a fold, so that the next read costs what has changed since."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from eventlog.store import EventStore, Position

from .projection import AnyFold, rows_with_keys
from .reader import PAGE, columns, read_page

KeptStates = dict[tuple[str, int], tuple[Position, dict[str, Any]]]
"""By name and version of a fold: the position of the last read, and all states at it, in order of key bytes."""


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
