"""The log itself: its newest events, whether their chain holds, and how far each projection is behind."""

from __future__ import annotations

from datetime import datetime

import msgspec

from eventlog.chain import verify_chain
from eventlog.errors import BrokenChain
from eventlog.postgres import PostgresStore
from eventlog.store import START, EventStore, Position
from eventlog.verification import chain_at
from projections.engine.builds import lags
from projections.engine.views import PostgresViews, Views
from projections.forged import FORGED, forged_key

from .events import EventPage, list_events
from .paging import page_after

MOST_CHECKED = 50
"""Events whose chain is checked for one page."""


class ChainStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The chain value at `position` in hexadecimal, and how many events were checked; `fault` is null or a sentence."""

    position: int
    chain: str
    checked: int
    fault: str | None


class HeadAnswer(msgspec.Struct, frozen=True):
    """A position of the log, and the chain digest there in hexadecimal (empty before the first event)."""

    position: int
    chain: str


class CountAnswer(msgspec.Struct, frozen=True):
    """How many events of each type the log holds."""

    events: dict[str, int]


class ForgedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A forged event: one that its actor may not have written, and that was not disowned."""

    position: int
    at: datetime
    type: str
    stream: str
    actor: str


class ForgedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Forged events in order; `next` is the position to continue after, null where no more follow."""

    events: tuple[ForgedRow, ...]
    next: int | None


class LagRow(msgspec.Struct, frozen=True, kw_only=True):
    """How far a projection is behind the head, in events and in seconds."""

    projection: str
    version: int
    position: int
    events: int
    seconds: float
    is_parked: bool


def chain_head(store: EventStore, upto: Position) -> HeadAnswer:
    """The chain digest at a position."""
    last = next(iter(store.read_stored(after=Position(max(0, upto - 1)), upto=upto)), None)
    return HeadAnswer(int(upto), "" if last is None else last.chain.hex())


def count_events(store: PostgresStore) -> CountAnswer:
    """How many events of each type the log holds, in order of type."""
    return CountAnswer(dict(sorted(store.counts().items())))


def list_forged(views: Views, *, after: int = 0, limit: int | None = None) -> ForgedPage:
    """A page of the forged events that were not disowned at the views' position."""
    page, following = page_after(views, FORGED, forged_key(after), limit)
    rows = tuple(
        ForgedRow(position=each.position, at=each.moment, type=each.type, stream=each.stream, actor=each.actor)
        for each in page.values()
    )
    return ForgedPage(events=rows, next=None if following is None else rows[-1].position)


def newest_events(store: EventStore, upto: Position, limit: int) -> EventPage:
    """The last events up to a position, newest first; `next` is the position to read older ones up to."""
    after = max(START, upto - limit)
    page = list_events(store, upto, after=after, limit=limit)
    return EventPage(events=page.events[::-1], next=after or None)


def check_chain(store: EventStore, upto: Position, most: int = MOST_CHECKED) -> ChainStatus:
    """Check the digests and the chain of the last events up to a position; `flywheel log verify` checks all."""
    after = Position(max(START, upto - most))
    fault = None
    try:
        rows = list(
            verify_chain(store.read_stored(after=after, upto=upto), after=after, previous=chain_at(store, after))
        )
    except BrokenChain as broken:
        rows, fault = [], str(broken)
    return ChainStatus(position=int(upto), chain=rows[-1].chain.hex() if rows else "", checked=len(rows), fault=fault)


def projection_lags(views: PostgresViews) -> tuple[LagRow, ...]:
    """How far each projection is behind the head, in order of name."""
    found = (
        LagRow(
            projection=lag.projection,
            version=lag.version,
            position=int(lag.position),
            events=lag.events,
            seconds=lag.seconds,
            is_parked=lag.is_parked,
        )
        for lag in lags(views.engine)
    )
    return tuple(sorted(found, key=lambda row: row.projection))
