"""Forged events: list those that were not disowned, disown them, and refuse to decide while there are any."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eventlog.chain import digest
from eventlog.events import EventsDisowned
from eventlog.store import Append, Committed, EventStore, Position, Repeated
from projections.engine.views import Views
from projections.forged import FORGED, ForgedState, forged_key

from ..errors import ForgedEvents, NoReason, NotForged

STREAM = "disownings"
MOST_IN_ONE = 1000
"""How many positions one event names at most; a longer list becomes several events of one append."""

_MOST_NAMED = 5


def forged_events(views: Views) -> tuple[ForgedState, ...]:
    """The forged events that were not disowned at or before the views' position, in order."""
    return tuple(views.find(FORGED).values())


def disown(store: EventStore, views: Views, positions: Collection[int], reason: str, actor: str) -> Position:
    """Record that the events at these positions are disowned, and return the position from which folds leave them out.

    Raises NoReason, NotForged.
    """
    if not reason.strip():
        raise NoReason(what="the events are disowned")
    chosen = sorted(set(positions))
    honest = [position for position in chosen if views.get(FORGED, forged_key(position)) is None]
    if not chosen:
        raise NotForged(actual="the log holds no forged event that was not disowned")
    if honest:
        raise NotForged(actual=f"there is no forged event, or one that was disowned before, at position {_few(honest)}")
    parts = (tuple(chosen[start : start + MOST_IN_ONE]) for start in range(0, len(chosen), MOST_IN_ONE))
    events = tuple(EventsDisowned(positions=part, reason=reason) for part in parts)
    (outcome,) = store.append([Append(STREAM, events, actor, key=f"disown:{digest(chosen).hex()[:32]}")])
    if not isinstance(outcome, Committed | Repeated):
        raise NotForged(actual="another process disowned these events meanwhile")
    return outcome.last


def refuse_forged(views: Views) -> None:
    """Raise ForgedEvents if there are forged events that were not disowned: a controller would decide by them."""
    found = forged_events(views)
    if found:
        positions = _few([event.position for event in found])
        raise ForgedEvents(count=len(found), actual=positions, type=found[0].type, actor=found[0].actor)


def _few(positions: Sequence[int]) -> str:
    more = len(positions) - _MOST_NAMED
    return ", ".join(map(str, positions[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
