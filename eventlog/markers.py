"""Markers: events that say which others are left out. They are read from the database alone, however much was archived.

Those that leave the table of events are kept in `dropped_markers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, TextClause, text

from .store import EventStore, Position

MARKED: Final = {"RunsWithdrawn": "runs", "EventsDisowned": "positions"}
"""The types of markers, each with the field that names what is left out."""

_BEFORE = "before"
_OF_KIND = """SELECT f.position, f.type, f.payload->'{field}' AS named FROM events f
    WHERE f.type = '{kind}' AND f.position > :after AND f.position <= :upto"""
"""Names its type in the statement: for a type in a variable the planner expects as many rows as there are on average,
and reads the whole table."""
_DROPPED = f"""SELECT position, type, named FROM dropped_markers
    WHERE position > :after AND (position <= :upto AND type = ANY(:types) OR type = '{_BEFORE}')
    ORDER BY position"""  # noqa: S608 a constant
_KEEP = text(f"""INSERT INTO dropped_markers SELECT position, type, CASE type
        {" ".join(f"WHEN '{kind}' THEN payload->'{field}'" for kind, field in MARKED.items())} END
    FROM events WHERE type = ANY(:types) AND position <= :upto""")  # noqa: S608 constants


class Marker(NamedTuple):
    """A marker's position, type, and the runs or positions that it names."""

    position: Position
    type: str
    named: list[Any]


def find_markers(
    connection: Connection, store: EventStore, after: int, upto: int, types: Sequence[str] = tuple(MARKED)
) -> list[Marker]:
    """The markers of these types at positions in (after, upto], in order.

    Those that were dropped before the database kept them are read from the archive through the store.
    """
    found = connection.execute(_find(tuple(types)), {"types": list(types), "after": after, "upto": upto}).all()
    kept = [Marker(Position(row.position), row.type, row.named) for row in found if row.type != _BEFORE]
    border = next((row.position for row in found if row.type == _BEFORE), 0)
    if border <= after:
        return kept
    archived = store.read(after=Position(after), upto=Position(min(border, upto)), types=types)
    events = ((each.position, each.event) for each in archived)
    older = [Marker(at, event.type, list(getattr(event, MARKED[event.type]))) for at, event in events]
    return [*older, *kept]


@cache
def _find(types: tuple[str, ...]) -> TextClause:
    """The statement that finds the markers of these types."""
    return text(" UNION ALL ".join([*(_OF_KIND.format(kind=kind, field=MARKED[kind]) for kind in types), _DROPPED]))


def keep_markers(connection: Connection, upto: Position) -> None:
    """Keep the markers up to a position that is about to be dropped, in the transaction that drops it."""
    connection.execute(_KEEP, {"types": list(MARKED), "upto": upto})
