"""The projector's part of a worker: keeps every projection current."""

from __future__ import annotations

from threading import Event

from agents.rollouts.dispatching.outages import suppress_lost_connection
from eventlog.store import Position

from ..house import House


def project(house: House, ended: Event, *, follow: bool) -> None:
    """Bring every projection to the head; with `follow`, keep it there until `ended` is set.

    Begins again after a lost connection, as soon as the house can connect. Raises OutageTooLong.
    """
    is_done = False
    while not is_done:
        with suppress_lost_connection():
            _project(house, ended, follow=follow)
            is_done = True


def _project(house: House, ended: Event, *, follow: bool) -> None:
    after = house.store.head()
    house.projector.catch_up(after)
    if follow:
        for batch in house.store.subscribe(after=after, until=lambda _: ended.is_set()):
            house.projector.catch_up(Position(batch[-1].position))
