"""Positions as people give them: a number, or a time."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Engine

from eventlog.postgres import PostgresStore
from eventlog.store import START, EventStore, Position

from .errors import BadPosition


def position_at(store: EventStore, at: datetime) -> Position:
    """The last position recorded at or before a time; a time without a zone is UTC.

    Times never go back in a log, so this looks at as many events as the head's position has binary digits.
    """
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    low, high = START, store.head()
    while low < high:
        middle = Position((low + high + 1) // 2)
        if time_of(store, middle) <= moment:
            low = middle
        else:
            high = Position(middle - 1)
    return low


def time_of(store: EventStore, position: Position) -> datetime:
    """When the event of a position was recorded; position 0 comes before any time. StopIteration: beyond the head."""
    if position == START:
        return datetime.min.replace(tzinfo=UTC)
    return next(iter(store.stored(after=Position(position - 1), upto=position))).at


def read_position(engine: Engine, given: str | None) -> Position | None:
    """A position or an ISO 8601 time as a position. Raises BadPosition."""
    if given is None:
        return None
    if given.isascii() and given.isdigit():
        return Position(int(given))
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise BadPosition(actual=given) from error
    return position_at(PostgresStore(engine), moment)
