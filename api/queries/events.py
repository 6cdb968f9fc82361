"""Events: pages of the log in order."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated

import msgspec

from eventlog import events
from eventlog.store import EventStore, Position, Recorded


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event and where it stands in the log; `event` has the shape in which it can be appended."""

    position: int
    stream: str
    version: int
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    actor: str
    cause: int | None
    type: str
    schema_version: int
    event: events.Event


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events in order of position; `next` is the position to continue after, null where no more follow."""

    events: tuple[LoggedEvent, ...]
    next: int | None


class AppendAnswer(msgspec.Struct, frozen=True):
    """The positions that appended events have; `version` is the stream's after them, null where the key was known."""

    outcome: str
    first: int
    last: int
    version: int | None


def logged_event(recorded: Recorded) -> LoggedEvent:
    """A recorded event as it is shown."""
    return LoggedEvent(
        position=recorded.position,
        stream=recorded.stream,
        version=recorded.version,
        at=recorded.at,
        actor=recorded.actor,
        cause=recorded.cause,
        type=recorded.event.type,
        schema_version=recorded.event.schema_version,
        event=recorded.event,
    )


def list_events(
    store: EventStore,
    upto: Position,
    *,
    after: int = 0,
    limit: int | None = None,
    stream: str | None = None,
    kind: str | None = None,
) -> EventPage:
    """At most `limit` events after a position (None: all), of one stream or type where it is given."""
    types, most = None if kind is None else (kind,), None if limit is None else limit + 1
    if stream is None and types is None and most is not None:
        upto = Position(min(upto, after + most))
    found = list(islice(store.read(after=Position(after), upto=upto, stream=stream, types=types), most))
    page = tuple(logged_event(recorded) for recorded in found[:limit])
    return EventPage(events=page, next=page[-1].position if len(page) < len(found) else None)
