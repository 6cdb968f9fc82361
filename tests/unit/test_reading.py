from __future__ import annotations

from datetime import UTC, datetime, timedelta

from api.positions import time_of
from eventlog.events import TokenIssued
from eventlog.memory import MemoryStore
from eventlog.store import Append, Position

BEGAN = datetime(2026, 11, 20, tzinfo=UTC)


def test_a_position_has_the_time_of_its_event_and_the_start_comes_before_any() -> None:
    clock = [BEGAN]
    store = MemoryStore(lambda: clock[0])
    for number in range(3):
        clock[0] += timedelta(seconds=number)
        event = TokenIssued(token=str(number), digest="0" * 64, role="admin")
        store.append([Append("access", (event,), "test")])
    seconds = [(time_of(store, Position(position)) - BEGAN).total_seconds() for position in (1, 2, 3)]
    assert seconds == [0, 1, 3]
    assert time_of(store, Position(0)) < BEGAN
