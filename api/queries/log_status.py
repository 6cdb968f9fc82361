"""The log itself: its newest events, whether their chain holds, and how far each projection is behind."""

from __future__ import annotations

import msgspec

from eventlog.chain import verify_chain
from eventlog.errors import BrokenChain
from eventlog.store import START, EventStore, Position
from eventlog.verification import chain_at
from projections.engine.builds import lags
from projections.engine.views import PostgresViews

from .events import EventPage, list_events

MOST_CHECKED = 50
"""Events whose chain is checked for one page."""


class ChainStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The chain value at `position` in hexadecimal, and how many events were checked; `fault` is null or a sentence."""

    position: int
    chain: str
    checked: int
    fault: str | None


class LagRow(msgspec.Struct, frozen=True, kw_only=True):
    """How far a projection is behind the head, in events and in seconds."""

    projection: str
    version: int
    position: int
    events: int
    seconds: float
    is_parked: bool


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
