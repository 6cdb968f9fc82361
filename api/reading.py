"""Positions as people give them: a number, or a time."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Engine, text

from eventlog.store import Position

from .errors import BadPosition


def position_at(engine: Engine, at: datetime) -> Position:
    """The last position recorded at or before a time; a time without a zone is UTC."""
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT position FROM events WHERE at <= :at ORDER BY position DESC LIMIT 1"), {"at": moment}
        ).scalar()
    return Position(found or 0)


def read_position(engine: Engine, given: str | None) -> Position | None:
    """A position or an ISO 8601 time as a position. Raises BadPosition."""
    if given is None:
        return None
    if given.isascii() and given.isdigit():
        return Position(int(given))
    try:
        return position_at(engine, datetime.fromisoformat(given))
    except ValueError as error:
        raise BadPosition(actual=given) from error
