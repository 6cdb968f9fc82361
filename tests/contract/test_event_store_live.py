"""What every event store keeps while it is written to: subscriptions, and writers side by side."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from eventlog.memory import MemoryStore
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Conflict, EventStore, Position, Repeated

from .test_event_store import LOST, WON, assert_whole, clock, put


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> EventStore:
    """An empty store of either kind."""
    if request.param == "memory":
        return MemoryStore(clock())
    return PostgresStore(request.getfixturevalue("empty_engine"))


def test_a_subscription_gives_what_is_there_and_ends_when_it_is_told(store: EventStore) -> None:
    put(store, "s", *[WON] * 60)
    asked: list[int] = []

    def enough(last: Position) -> bool:
        asked.append(last)
        return True

    batches = list(store.subscribe(after=Position(20), until=enough))
    assert [r.position for batch in batches for r in batch] == list(range(21, 61))
    assert asked == [60]


def test_a_subscription_from_the_head_waits_for_what_comes_and_wakes_for_it(store: EventStore) -> None:
    put(store)
    waiting = threading.Event()
    seen: list[int] = []

    def listen() -> None:
        def until(last: Position) -> bool:
            waiting.set()
            return last >= 3

        for batch in store.subscribe(after=Position(1), until=until):
            seen.extend(r.position for r in batch)

    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(listen)
        assert waiting.wait(10)
        assert seen == []
        put(store)
        put(store)
        listening.result(10)
    assert seen == [2, 3]


def test_a_subscription_past_the_head_begins_where_it_was_asked_to(store: EventStore) -> None:
    put(store, "s", WON, WON)
    calls = itertools.count()
    assert list(store.subscribe(after=Position(5), until=lambda _last: next(calls) == 1)) == []


def test_writers_side_by_side_leave_no_gap_and_a_tailing_reader_sees_every_position_once(store: EventStore) -> None:
    writers, appends = 8, 50
    total = sum(writers * (1 + n % 4) for n in range(appends))
    seen: list[int] = []

    def tail() -> None:
        for batch in store.subscribe(after=START, until=lambda last: last >= total):
            seen.extend(r.position for r in batch)

    def write(writer: int) -> None:
        for n in range(appends):
            size = 1 + n % 4
            if n % 2:
                put(store, f"w{writer}", *[WON] * size, expect=None)
            else:
                requests = [Append("shared", (LOST,), f"w{writer}") for _ in range(size)]
                assert {type(outcome) for outcome in store.append(requests)} == {Committed}

    with ThreadPoolExecutor(writers + 1) as pool:
        tailing = pool.submit(tail)
        list(pool.map(write, range(writers)))
        tailing.result(30)
    assert seen == list(range(1, total + 1))
    assert_whole(store)


def test_of_writers_that_expect_the_same_version_exactly_one_wins(store: EventStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        for version in range(5):
            outcomes = list(pool.map(lambda _n, at=version: put(store, "s", WON, expect=at), range(8)))
            assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
            assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7
    assert store.head() == 5


def test_of_writers_with_the_same_key_one_commits_and_the_others_learn_where(store: EventStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _n: put(store, "s", WON, LOST, key="k"), range(16)))
    assert sum(outcome == Committed(Position(1), Position(2), 2) for outcome in outcomes) == 1
    assert sum(outcome == Repeated(Position(1), Position(2)) for outcome in outcomes) == 15
