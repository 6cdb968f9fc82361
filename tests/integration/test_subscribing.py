"""Subscriptions across a lost connection: the batches go on behind the last one, or the database is said to be away."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from eventlog import postgres
from eventlog.database import open_engine
from eventlog.errors import LogUnavailable
from eventlog.postgres import PostgresStore
from eventlog.store import START, Append, Position
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

LISTENERS = """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND usename = current_user AND query LIKE :query"""


@pytest.fixture
def other(empty_database: Database) -> Iterator[Engine]:
    """Another engine of the same role, whose connections are ended by nobody."""
    opened = open_engine(empty_database.app_url)
    yield opened
    opened.dispose()


def put(engine: Engine) -> None:
    PostgresStore(engine).append([Append("prices", (sample("PriceBookSet", version=9),), "test")])


def end(engine: Engine, query: str) -> int:
    with engine.connect() as connection:
        return len(connection.execute(text(LISTENERS), {"query": query}).all())


@pytest.mark.parametrize("query", ["LISTEN%", "%"], ids=["the listener", "every connection"])
def test_a_subscription_goes_on_behind_its_last_position_when_its_connections_are_ended(
    empty_engine: Engine, other: Engine, query: str
) -> None:
    put(other)
    seen: list[int] = []
    quiet, ended = threading.Event(), []

    def until(last: Position) -> bool:
        quiet.set()
        return last >= 3

    def listen() -> None:
        for batch in PostgresStore(empty_engine).subscribe(after=START, until=until):
            seen.extend(event.position for event in batch)

    listening = threading.Thread(target=listen)
    listening.start()
    for _ in range(2):
        assert quiet.wait(10)
        ended.append(end(other, query))
        quiet.clear()
        put(other)
    listening.join(20)
    assert not listening.is_alive()
    assert seen == [1, 2, 3]
    assert min(ended) >= 1


def test_a_database_that_stays_away_is_said_to_be_after_growing_pauses(
    empty_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(empty_engine)
    waited: list[float] = []
    put(empty_engine)
    batches = store.subscribe(after=START, until=lambda _: False)
    assert [event.position for event in next(batches)] == [1]
    monkeypatch.setattr(postgres, "sleep", waited.append)
    away = empty_engine.url.set(host="127.0.0.1", port=1, query={})
    monkeypatch.setattr(empty_engine, "url", away)
    end(empty_engine, "LISTEN%")
    with pytest.raises(LogUnavailable):
        next(batches)
    assert waited == sorted(waited)
    assert 25 <= sum(waited) <= 35
