"""The statements that read pages of events, and the rows that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, TextClause, text

from .archive.segments import POSITIONS_OF_STREAM
from .store import Position, Stored

_SELECT = """SELECT e.position, e.stream, e.version, e.at, e.actor, e.cause, e.type, e.schema_version,
    e.payload::text AS payload, e.digest, e.chain FROM """
_RANGE = "e.position > :after AND e.position <= :upto"
_OF_ACTOR = " AND e.actor = :actor"
_PAGE = " ORDER BY e.position LIMIT :page"
_READ, _READ_OF_ACTOR = (text(_SELECT + "events e WHERE " + _RANGE + narrowed + _PAGE) for narrowed in ("", _OF_ACTOR))
_OF_TYPES = f"""SELECT found.position FROM unnest(CAST(:types AS text[])) AS t (type) CROSS JOIN LATERAL (
    SELECT e.position FROM events e WHERE e.type = t.type AND {_RANGE}{{narrowed}}{_PAGE}
    ) found ORDER BY 1 LIMIT :page"""  # noqa: S608 constants
"""One page of the positions of some types, each found in the index of types: no other event is looked at."""
_AT_POSITIONS = """wanted CROSS JOIN LATERAL
    (SELECT * FROM events f WHERE f.position = wanted.position OFFSET 0) e ORDER BY e.position"""
_READ_TYPES, _READ_TYPES_OF_ACTOR = (
    text(_SELECT + f"({_OF_TYPES.format(narrowed=narrowed)}) {_AT_POSITIONS}") for narrowed in ("", _OF_ACTOR)
)
_READ_STREAM = text(_SELECT + f"({POSITIONS_OF_STREAM}) wanted JOIN events e USING (position) ORDER BY e.position")


def choose_statement(
    stream: str | None, types: Sequence[str] | None, actor: str | None
) -> tuple[TextClause, Mapping[str, Any]]:
    """The statement that reads these, and the values that name them."""
    if stream is not None:
        return _READ_STREAM, {"stream": stream}
    own = {} if actor is None else {"actor": actor}
    if types is None:
        return (_READ_OF_ACTOR if own else _READ), own
    return (_READ_TYPES_OF_ACTOR if own else _READ_TYPES), {"types": sorted(set(types)), **own}


def stored_row(row: Row[Any]) -> Stored:
    """A selected row of `events`, its payload as text."""
    return Stored(
        position=Position(row.position),
        stream=row.stream,
        version=row.version,
        at=row.at,
        actor=row.actor,
        cause=None if row.cause is None else Position(row.cause),
        type=row.type,
        schema_version=row.schema_version,
        payload=row.payload,
        digest=bytes(row.digest),
        chain=bytes(row.chain),
    )
