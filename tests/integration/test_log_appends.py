"""Appends that meet trouble: an old snapshot, another connection, a rollback, a log without a partition left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from eventlog.appending import by_call, by_copy
from eventlog.chain import GENESIS, verify_chain
from eventlog.codec import encode_append
from eventlog.database import open_engine
from eventlog.errors import LogFull
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Committed, Position, Stored
from projections.engine.projector import Projector
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

from .test_log_guards import DAWN, fingerprint, insert, refusal

WON = sample("RewriteWon")


@pytest.mark.parametrize("write", [by_call, by_copy])
@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_caller_with_an_old_snapshot_fails_and_writes_nothing(
    empty_engine: Engine, isolation: str, write: Callable[..., object]
) -> None:
    store = PostgresStore(empty_engine)
    with empty_engine.connect().execution_options(isolation_level=isolation) as connection:
        connection.execute(text("SELECT count(*) FROM events")).scalar()
        (outcome,) = store.append([Append("s", (WON,), "test")])
        assert isinstance(outcome, Committed)
        with pytest.raises(psycopg.Error):
            write(connection.connection.cursor(binary=True), [encode_append(Append("t", (WON,), "test", key="k"))])
    assert store.head() == 1
    assert list(store.append([Append("t", (WON,), "test", key="k")])) == [Committed(Position(2), Position(2), 1)]
    assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == 2


def test_appends_from_two_processes_worth_of_connections_interleave_without_a_gap(empty_database: Database) -> None:
    engines = [open_engine(empty_database.app_url), open_engine(empty_database.app_url)]
    try:
        stores = [PostgresStore(engine) for engine in engines]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: stores[n % 2].append([Append(f"s{n % 5}", (WON,), "test")]), range(120)))
        rows = list(verify_chain(stores[0].read_stored(), after=START, previous=GENESIS))
        assert (len(rows), stores[1].head()) == (120, 120)
    finally:
        for engine in engines:
            engine.dispose()


def test_an_append_that_is_rolled_back_leaves_its_positions_to_the_next(empty_engine: Engine) -> None:
    store = PostgresStore(empty_engine)
    request = Append("s", (WON,), "test", expect=0, key="k")
    with empty_engine.connect() as connection:
        driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        assert by_call(driver.cursor(binary=True), [encode_append(request)]) == [Committed(Position(1), Position(1), 1)]
        connection.rollback()
    assert list(store.append([request])) == [Committed(Position(1), Position(1), 1)]


@pytest.fixture
def owner_of_empty(empty_database: Database) -> Iterator[Engine]:
    """The owner's engine on an empty log."""
    opened = open_engine(empty_database.owner_url)
    yield opened
    opened.dispose()


def test_a_log_without_a_partition_is_full_writes_nothing_and_goes_on_once_one_is_reserved(
    empty_engine: Engine, owner_of_empty: Engine
) -> None:
    with owner_of_empty.begin() as connection:
        connection.execute(text("DROP TABLE events_1"))
    store = PostgresStore(empty_engine)
    with pytest.raises(LogFull) as caught:
        store.append([Append("s", (WON,), "test", key="k")])
    assert (caught.value.facts["actual"], store.head()) == (1, START)
    assert fingerprint(owner_of_empty) == [(0, None)] * 3
    with owner_of_empty.connect() as connection:
        assert connection.execute(text("SELECT reserve_partitions(1)")).scalar() == 1
        connection.commit()
    assert list(store.append([Append("s", (WON,), "test", key="k")])) == [Committed(Position(1), Position(1), 1)]


def test_reserving_makes_only_what_is_missing_and_its_partitions_are_guarded(
    empty_engine: Engine, owner_of_empty: Engine
) -> None:
    def reserve(engine: Engine, upto: int) -> int:
        with engine.begin() as connection:
            return int(connection.execute(text("SELECT reserve_partitions(:upto)"), {"upto": upto}).scalar_one())

    if empty_engine.url.username != owner_of_empty.url.username:
        with pytest.raises(DBAPIError, match="permission denied"):
            reserve(empty_engine, 20_000_001)
    assert [reserve(owner_of_empty, upto) for upto in (10_000_000, 10_000_001, 15_000_000, 20_000_001)] == [0, 1, 0, 2]
    for table in ("events_10000001", "events_20000001"):
        assert "is append-only" in refusal(owner_of_empty, f"TRUNCATE {table}")
        far = Stored(Position(int(table[7:])), "s", 1, DAWN, "a", None, "RewriteWon", 1, "{}", bytes(32), bytes(32))
        with (
            pytest.raises(DBAPIError, match="do not follow the head"),
            owner_of_empty.begin() as connection,
        ):
            insert(connection, table, far)


@pytest.mark.parametrize("amount", [1, 30])
def test_appends_go_over_the_edge_of_a_partition_and_reserve_the_next_one_in_time(
    empty_engine: Engine, owner_of_empty: Engine, amount: int
) -> None:
    last = 5_000_000 - 2 * amount - amount // 2
    row = Stored(Position(last), "far", 1, DAWN, "a", None, "RewriteWon", 1, "{}", bytes(32), bytes(32))
    with owner_of_empty.begin() as connection:
        connection.execute(text("ALTER TABLE events_1 DISABLE TRIGGER guard_insert"))
        insert(connection, "events_1", row)
        connection.execute(text("ALTER TABLE events_1 ENABLE ALWAYS TRIGGER guard_insert"))
    store = PostgresStore(empty_engine)
    for _ in range(5):
        (outcome,) = store.append([Append("s", (WON,) * amount, "test")])
        assert isinstance(outcome, Committed)
    rows = verify_chain(store.read_stored(after=Position(last)), after=Position(last), previous=bytes(32))
    assert [row.position for row in rows] == [last + n for n in range(1, 5 * amount + 1)]
    with empty_engine.connect() as connection:
        found = connection.execute(text("SELECT tableoid::regclass::text, count(*) FROM events GROUP BY 1 ORDER BY 1"))
        assert [name for name, _ in found] == ["events_1", "events_5000001"]
        assert connection.execute(text("SELECT to_regclass('events_10000001')")).scalar() is not None
        may = text("SELECT has_table_privilege('events_10000001', 'INSERT')")
        assert connection.execute(may).scalar()


def test_a_partition_may_be_reserved_while_others_append_and_fold(empty_engine: Engine, owner_of_empty: Engine) -> None:
    store, projector = PostgresStore(empty_engine), Projector(empty_engine)

    def reserve(upto: int) -> None:
        with owner_of_empty.begin() as connection:
            connection.execute(text("SELECT reserve_partitions(:upto)"), {"upto": upto})

    with ThreadPoolExecutor(3) as pool:
        done: list[Future[object]] = [pool.submit(reserve, 20_000_000 + n * 5_000_000) for n in range(1, 4)]
        done += [pool.submit(store.append, [Append("s", (sample("PriceBookSet"),), "a")]) for _ in range(20)]
        done += [pool.submit(projector.catch_up) for _ in range(3)]
        for future in done:
            future.result(20)
    assert store.head() == 20
