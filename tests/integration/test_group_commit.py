"""Appends of many threads in one transaction: each keeps its own outcome, and none pays for its neighbour."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text
from sqlalchemy.exc import DataError, OperationalError

from eventlog.appending import Cursor, by_call, by_copy
from eventlog.chain import GENESIS, verify_chain
from eventlog.codec import EncodedAppend, encode_append
from eventlog.errors import AppendInterrupted, LogBusy
from eventlog.group_commit import Counts, GroupCommit
from eventlog.memory import MemoryStore
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Conflict, KeyReused, Outcome, Position, Rejected, Repeated
from tests.golden.test_golden_samples import sample

WON = sample("RewriteWon")
FIRST = Committed(Position(1), Position(1), 1)


def request(key: str = "k", events: int = 1, stream: str = "s") -> EncodedAppend:
    return encode_append(Append(stream, (WON,) * events, "test", key=key))


class Slow:
    """A commit that waits until it is let go, and remembers what came together."""

    def __init__(self) -> None:
        self.began, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.batches: list[list[str]] = []
        self.groups: list[int] = []

    def __call__(self, requests: Sequence[EncodedAppend], *, together: bool) -> list[Outcome]:
        self.groups += [len(self.batches)] * together
        self.batches.append([r.key for r in requests])
        self.began.release()
        self.go.acquire()
        if any(r.key == "refused" for r in requests):
            raise DataError("append", None, ValueError("refused"))
        if any(r.key == "unreachable" for r in requests):
            raise OperationalError("append", None, ValueError("unreachable"))
        if any(r.key == "stopped" for r in requests):
            raise KeyboardInterrupt
        if any(r.key == "outdated" for r in requests):
            return [Conflict(r.stream, 0, 1) if r.key == "outdated" else FIRST for r in requests]
        return [FIRST for _ in requests]


def test_what_waits_while_one_commits_is_committed_together() -> None:
    slow = Slow()
    group = GroupCommit(slow)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(group.append, [request("first")])
        slow.began.acquire()
        others = [pool.submit(group.append, [request(f"k{n}")]) for n in range(5)]
        while group.counts.received < 6:
            pass
        slow.go.release(10)
        assert [len(future.result(5)) for future in (first, *others)] == [1] * 6
    assert [sorted(batch) for batch in slow.batches] == [["first"], [f"k{n}" for n in range(5)]]
    assert group.counts == Counts(received=6, committed=6, repeated=0, rejected=0, events=6, commits=2)


def test_a_group_is_not_merged_with_what_waits_beside_it_and_counts_as_written_or_rejected() -> None:
    slow = Slow()
    group = GroupCommit(slow)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(group.append, [request("first")])]
        slow.began.acquire()
        for received, (keys, together) in enumerate(
            [("a", False), ("b", False), ("cd", True), ("e", False), ("f", True), (["g", "outdated"], True)], 2
        ):
            futures.append(pool.submit(group.append, [request(key) for key in keys], together=together))
            while len(group._queue) < received - 1:
                pass
        slow.go.release(20)
        outcomes = [future.result(5) for future in futures]
    assert slow.batches == [["first"], ["a", "b"], ["c", "d"], ["e", "f"], ["g", "outdated"]]
    assert slow.groups == [2, 4]  # one request alone is no group
    assert list(outcomes[-1]) == [FIRST, Conflict("s", 0, 1)]
    assert group.counts == Counts(received=9, committed=7, repeated=0, rejected=2, events=7, commits=5)


def test_one_whose_data_is_refused_does_not_fail_those_it_was_merged_with() -> None:
    slow = Slow()
    group = GroupCommit(slow)
    with ThreadPoolExecutor(4) as pool:
        pool.submit(group.append, [request("first")])
        slow.began.acquire()
        futures = {key: pool.submit(group.append, [request(key)]) for key in ("a", "refused", "b")}
        while group.counts.received < 4:
            pass
        slow.go.release(20)
        with pytest.raises(DataError):
            futures["refused"].result(5)
        assert [len(futures[key].result(5)) for key in "ab"] == [1, 1]
    assert sorted(slow.batches[1]) == ["a", "b", "refused"]
    assert (group.counts.committed, group.counts.rejected, group.counts.open_requests) == (3, 1, 0)


def test_a_database_that_is_away_fails_all_that_were_merged_and_the_next_try_may_do() -> None:
    slow = Slow()
    slow.go.release(20)
    group = GroupCommit(slow)
    with pytest.raises(OperationalError):
        group.append([request("unreachable"), request("k")])
    assert len(group.append([request("k")])) == 1
    assert group.counts == Counts(received=3, committed=1, repeated=0, rejected=2, events=1, commits=1)


def test_a_leader_that_is_interrupted_leaves_nobody_waiting() -> None:
    slow = Slow()
    group = GroupCommit(slow)
    with ThreadPoolExecutor(3) as pool:
        leader = pool.submit(group.append, [request("leader")])
        slow.began.acquire()
        stopped = pool.submit(group.append, [request("stopped")])
        while group.counts.received < 2:
            pass
        merged = pool.submit(group.append, [request("merged")])
        while group.counts.received < 3:
            pass
        slow.go.release(10)
        assert len(leader.result(5)) == 1
        errors = [future.exception(5) for future in (stopped, merged)]
    assert sorted(type(error).__name__ for error in errors) == ["AppendInterrupted", "KeyboardInterrupt"]
    assert any(isinstance(error, AppendInterrupted) for error in errors)
    assert len(group.append([request("later")])) == 1
    assert group.counts.open_requests == 0


def test_a_caller_that_is_interrupted_while_it_waits_leaves_nobody_behind() -> None:
    slow = Slow()
    group = GroupCommit(slow)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(group.append, [request("first")])
            slow.began.acquire()
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                group.append([request("leaving")])
            last = pool.submit(group.append, [request("last")])
            while group.counts.received < 3:
                pass
            slow.go.release(5)
            assert [len(future.result(5)) for future in (first, last)] == [1, 1]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert slow.batches == [["first"], ["last"]]
    counts = group.counts
    assert (counts.received, counts.committed, counts.rejected, counts.open_requests) == (3, 2, 1, 0)


def test_more_than_may_wait_is_refused_at_once_and_counted() -> None:
    slow = Slow()
    group = GroupCommit(slow, most_waiting=3)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(group.append, [request("first", events=5)])  # alone, however large
        slow.began.acquire()
        with pytest.raises(LogBusy) as caught:
            group.append([request("more")])
        slow.go.release(5)
        first.result(5)
    assert caught.value.facts == {"actual": 5, "expected": 3}
    assert len(group.append([request("again")])) == 1
    assert group.counts == Counts(received=3, committed=2, repeated=0, rejected=1, events=6, commits=2)


def test_every_thread_gets_its_own_outcome_and_the_counts_add_up(empty_engine: Engine) -> None:
    store = PostgresStore(empty_engine)
    store.append([Append("taken", (WON,), "test", expect=0, key="taken")])

    def append(n: int) -> Outcome:
        requests = {
            0: Append(f"s{n}", (WON,) * (1 + n % 40), "test", key=f"k{n}"),
            1: Append("taken", (WON,), "test", expect=0, key="taken"),
            2: Append("taken", (WON,), "test", expect=0, key=f"k{n}"),
            3: Append("other", (WON,), "test", key="taken"),
        }
        (outcome,) = store.append([requests[n % 4]])
        return outcome

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(append, range(200)))
    kinds = [Committed, Repeated, Conflict, KeyReused]
    assert all(isinstance(outcome, kinds[n % 4]) for n, outcome in enumerate(outcomes))
    rows = list(verify_chain(store.read_stored(), after=START, previous=GENESIS))
    counts = store.group.counts
    assert (counts.received, counts.committed, counts.repeated, counts.rejected) == (201, 51, 50, 100)
    assert counts.events == len(rows)
    assert counts.commits < counts.received


def test_a_pool_of_connections_that_the_server_dropped_costs_no_append(empty_engine: Engine) -> None:
    store = PostgresStore(empty_engine)
    held = [empty_engine.connect() for _ in range(6)]
    for connection in held:
        connection.execute(text("SELECT 1"))
        connection.rollback()
        connection.close()
    with empty_engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user"
            )
        ).all()
        connection.invalidate()
    outcomes = [store.append([Append("s", (WON,), "test", expect=number)])[0] for number in range(4)]
    assert all(isinstance(outcome, Committed) for outcome in outcomes)


def test_a_connection_that_the_server_dropped_is_replaced_without_the_caller_noticing(empty_engine: Engine) -> None:
    store = PostgresStore(empty_engine)
    store.append([Append("s", (WON,), "test")])
    with empty_engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user"
            )
        ).all()
        assert list(store.append([Append("s", (WON,), "test", expect=1)])) == [Committed(Position(2), Position(2), 2)]


BATCHES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 8), st.integers(1, 30), st.none() | st.integers(0, 60)),
    min_size=1,
    max_size=8,
)


def test_groups_of_many_threads_are_written_whole_or_not_at_all(empty_engine: Engine) -> None:
    """The groups of a round expect the same version of one stream, so one of them is written."""
    store, rounds, everyone = PostgresStore(empty_engine), 6, threading.Barrier(6)

    def race(number: int) -> list[bool]:
        won = []
        for turn in range(rounds):
            size = 60 if number % 2 else 1
            along = Append(f"{turn}/{number}", (WON,) * size, "test", expect=0)
            result = store.append_together([along, Append("shared", (WON,), "test", expect=turn)])
            won.append(not isinstance(result, Rejected))
            everyone.wait(30)
        return won

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(race, range(6)))
    assert [sum(of_turn) for of_turn in zip(*won, strict=True)] == [1] * rounds
    alongside = {row.stream for row in verify_chain(store.read_stored(), after=START, previous=GENESIS)} - {"shared"}
    assert alongside == {f"{turn}/{number}" for number in range(6) for turn in range(rounds) if won[number][turn]}


@pytest.mark.parametrize("write", [by_call, by_copy])
def test_a_batch_is_judged_in_sql_as_it_is_in_memory(
    empty_engine: Engine, write: Callable[[Cursor, Sequence[EncodedAppend]], list[Outcome]]
) -> None:
    table, memory = PostgresStore(empty_engine), MemoryStore(lambda: datetime(2026, 1, 1, tzinfo=UTC))

    @settings(max_examples=40, deadline=None)
    @given(BATCHES)
    def agree(batch: list[tuple[str, int, int, int | None]]) -> None:
        requests = [Append(stream, (WON,) * n, "test", expect, f"{stream}{key}") for stream, key, n, expect in batch]
        with empty_engine.connect() as connection:
            driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
            driver.autocommit = True
            outcomes = write(driver.cursor(binary=True), [encode_append(request) for request in requests])
            driver.autocommit = False
        assert outcomes == list(memory.append(requests))

    agree()
    rows = list(verify_chain(table.read_stored(), after=START, previous=GENESIS))
    ours, theirs = (
        [(r.position, r.stream, r.version, r.digest) for r in found] for found in (rows, memory.read_stored())
    )
    assert ours == theirs
