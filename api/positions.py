"""Parse log positions given as a number or a time."""

from __future__ import annotations

from datetime import UTC, datetime

from eventlog.postgres import PostgresStore
from eventlog.store import START, EventStore, Position

from .errors import BadPosition


def time_of(store: EventStore, position: Position) -> datetime:
    """Time when the event of a position was recorded; for 0 the earliest time. StopIteration: beyond the head."""
    if position == START:
        return datetime.min.replace(tzinfo=UTC)
    return next(iter(store.read_stored(after=Position(position - 1), upto=position))).at


def moment_of(store: EventStore, as_of: str | None, position: Position) -> datetime:
    """The time that a read is of: now without `as_of`, else when the event of the position was recorded."""
    return datetime.now(UTC) if as_of is None else time_of(store, position)


def read_position(store: PostgresStore, given: str | None) -> Position | None:
    """Parse a position or an ISO 8601 time; a time without a zone is UTC. Raises BadPosition."""
    if given is None:
        return None
    if given.isascii() and given.isdigit():
        return Position(int(given))
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise BadPosition(actual=given) from error
    return store.position_at(_in_utc(moment))


def _in_utc(moment: datetime) -> datetime:
    """The same time in UTC, since PostgreSQL takes no offset of 16 hours or more; at most a year's end that exists."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if moment.year == 1 else datetime.max.replace(tzinfo=UTC)
