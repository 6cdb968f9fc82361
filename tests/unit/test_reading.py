from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from api.reading import position_at, time_of
from eventlog.events import TokenIssued
from eventlog.memory import MemoryStore
from eventlog.store import Append, Position

BEGAN = datetime(2026, 11, 20, tzinfo=UTC)
GAPS = st.lists(st.integers(0, 3), max_size=40)


def store_of(gaps: list[int]) -> MemoryStore:
    """A log whose events are so many seconds apart."""
    clock = [BEGAN]
    store = MemoryStore(lambda: clock[0])
    for number, gap in enumerate(gaps):
        clock[0] += timedelta(seconds=gap)
        event = TokenIssued(token=str(number), digest="0" * 64, role="admin")
        store.append([Append("access", (event,), "test")])
    return store


@given(GAPS, st.integers(-2, 130))
def test_a_time_stands_for_the_last_position_at_or_before_it(gaps: list[int], seconds: int) -> None:
    store, moment = store_of(gaps), BEGAN + timedelta(seconds=seconds)
    expected = max((item.position for item in store.read() if item.at <= moment), default=Position(0))
    assert position_at(store, moment) == expected


def test_a_time_without_a_zone_is_utc_and_another_zone_is_heard() -> None:
    store = store_of([0, 60])
    assert position_at(store, datetime(2026, 11, 20, 0, 0, 59)) == 1  # noqa: DTZ001
    assert position_at(store, datetime.fromisoformat("2026-11-20T02:01:00+02:00")) == 2
    assert time_of(store, Position(2)) == BEGAN + timedelta(seconds=60)
    assert time_of(store, Position(0)) < BEGAN
