"""What was planned on a site."""

from __future__ import annotations

from eventlog.disowned import read_in_force
from eventlog.events import SweepPlanned
from eventlog.store import EventStore


def sweeps_of(store: EventStore, site: str) -> tuple[SweepPlanned, ...]:
    """SweepPlanned events of a site, in order. An extended sweep has several."""
    found = (recorded.event for recorded in read_in_force(store, types=["SweepPlanned"]))
    return tuple(event for event in found if isinstance(event, SweepPlanned) and event.environment == site)
