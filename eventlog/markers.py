"""Markers: events that say which others are left out. They are read from the database alone, however much was archived.

Those that leave the table of events are kept in `dropped_markers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, text

from .store import EventStore, Position

MARKED: Final = {"RunsWithdrawn": "runs", "EventsDisowned": "positions"}
"""The types of markers, each with the field that names what is left out."""

_BEFORE = "before"
_FIND = text(f"""SELECT e.position, e.type, CASE e.type
            {" ".join(f"WHEN '{kind}' THEN e.payload->'{field}'" for kind, field in MARKED.items())} END AS named
        FROM unnest(CAST(:types AS text[])) AS t (type) CROSS JOIN LATERAL (
            SELECT * FROM events f WHERE f.type = t.type AND f.position > :after AND f.position <= :upto OFFSET 0) e
    UNION ALL SELECT position, type, named FROM dropped_markers
        WHERE position > :after AND (position <= :upto AND type = ANY(:types) OR type = '{_BEFORE}')
    ORDER BY position""")  # noqa: S608 constants
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
    found = connection.execute(_FIND, {"types": list(types), "after": after, "upto": upto}).all()
    kept = [Marker(Position(row.position), row.type, row.named) for row in found if row.type != _BEFORE]
    border = next((row.position for row in found if row.type == _BEFORE), 0)
    if border <= after:
        return kept
    archived = store.read(after=Position(after), upto=Position(min(border, upto)), types=types)
    events = ((each.position, each.event) for each in archived)
    older = [Marker(at, event.type, list(getattr(event, MARKED[event.type]))) for at, event in events]
    return [*older, *kept]


def keep_markers(connection: Connection, upto: Position) -> None:
    """Keep the markers up to a position that is about to be dropped, in the transaction that drops it."""
    connection.execute(_KEEP, {"types": list(MARKED), "upto": upto})
