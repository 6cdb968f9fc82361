"""A worker outlives a stop of its database: it waits, keeps its jobs, and plays on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Status
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from agents.rollouts.dispatching.held_jobs import HeldJobs
from agents.rollouts.dispatching.outages import PatientConnector, suppress_lost_connection
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue
from api.embedded import down, up
from api.house import House
from eventlog.database import OutagePatience, is_connection_lost, open_engine, project_schema
from eventlog.errors import OutageTooLong
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed
from migrations.migrate import migrate
from tests.conftest import Database, house_on
from tests.golden.test_golden_samples import sample

from .conftest import Start
from .test_durable_queue import QUICK, Worker
from .test_worker import PATIENCE_S, assert_each_ended_once_in_order, doing, finished, plan, read_until

AWAY_S = 2.0
WON = sample("RewriteWon")

Opened = Callable[[str, OutagePatience | None], Engine]


@pytest.fixture(scope="module")
def own_home() -> Iterator[Path]:
    """A home with a server of its own, which these tests stop and start."""
    with tempfile.TemporaryDirectory(prefix="fw-") as place:
        yield Path(place).resolve()
        down(Path(place).resolve())


@pytest.fixture
def server_of_its_own(own_home: Path, tmp_path: Path) -> Database:
    """The running server of the home."""
    found = up(own_home)
    return Database(found.owner_url, found.app_url, tmp_path / "keys")


@pytest.fixture
def opened(server_of_its_own: Database) -> Iterator[Opened]:
    """A function that makes a project on that server and opens an engine on it, which is closed at the end."""
    engines: list[Engine] = []

    def make(project: str, patience: OutagePatience | None = None) -> Engine:
        owner = open_engine(server_of_its_own.owner_url, project)
        migrate(owner, app_role=server_of_its_own.app_role)
        owner.dispose()
        engines.append(open_engine(server_of_its_own.app_url, project, patience=patience))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def house_of(opened: Opened, server_of_its_own: Database) -> Callable[[str], House]:
    """A function that makes a house on a project of its own."""
    return lambda project: house_on(opened(project, None), server_of_its_own)


def worker_of(start: Start, at: Database, project: str, *options: str) -> subprocess.Popen[str]:
    urls = {"FLYWHEEL_DATABASE_URL": at.app_url, "FLYWHEEL_OWNER_URL": at.owner_url, "FLYWHEEL_PROJECT": project}
    return start("--max-parallel", "3", *options, **urls)


def test_a_worker_keeps_its_jobs_while_the_database_is_away_and_plays_on(
    own_home: Path, house_of: Callable[[str], House], server_of_its_own: Database, start: Start
) -> None:
    house = house_of("kept")
    sweep = plan(house, RolloutQueue(house.engine, "marketplace"), seeds=16)
    worker = worker_of(start, server_of_its_own, "kept", "--until-empty", "--outage", "60")
    seen = read_until(worker, "played")
    down(own_home)
    seen += read_until(worker, "unreachable")
    time.sleep(AWAY_S)
    assert worker.poll() is None
    up(own_home)
    house.engine.dispose()
    seen += finished(worker)
    kinds = {event["event"] for event in seen}
    assert kinds <= {"started", "added", "played", "unreachable", "reached", "interrupted", "stopped"}
    assert "reached" in kinds
    assert seen[-1] == {"event": "stopped", "open": 0, "parked": 0}
    assert_each_ended_once_in_order(house, sweep)


def test_a_worker_whose_database_stays_away_ends_and_leaves_its_jobs_to_the_next(
    own_home: Path, house_of: Callable[[str], House], server_of_its_own: Database, start: Start
) -> None:
    house = house_of("left")
    sweep = plan(house, RolloutQueue(house.engine, "marketplace"), seeds=8)
    worker = worker_of(start, server_of_its_own, "left", "--outage", "1")
    stopped = worker_of(start, server_of_its_own, "left", "--outage", "600")
    read_until(worker, "played")
    read_until(stopped, "started")
    down(own_home)
    read_until(stopped, "unreachable")
    stopped.send_signal(signal.SIGTERM)
    for ended in (worker, stopped):
        _, err = ended.communicate(timeout=PATIENCE_S)
        assert ended.returncode == 1
        assert "Traceback" not in err
    up(own_home)
    house.engine.dispose()
    held = doing(house.engine)
    events = finished(worker_of(start, server_of_its_own, "left", "--until-empty", "--rescue-after", "4"))
    assert {event["run"] for event in events if event["event"] == "rescued"} == set(held)
    assert_each_ended_once_in_order(house, sweep)


def test_an_engine_with_patience_waits_for_the_server_and_no_longer_than_it_may(own_home: Path, opened: Opened) -> None:
    over: list[bool] = []
    patient = opened("waiting", OutagePatience(60, lambda: bool(over)))
    store = PostgresStore(patient)
    store.append([Append("s", (WON,), "test")])
    down(own_home)

    def start_again() -> None:
        time.sleep(AWAY_S / 2)
        up(own_home)

    again = Thread(target=start_again)
    again.start()
    (outcome,) = store.append([Append("s", (WON,), "test", expect=1)])
    again.join()
    assert isinstance(outcome, Committed)
    down(own_home)
    over.append(True)
    with pytest.raises(OutageTooLong):
        store.append([Append("s", (WON,), "test", expect=2)])
    up(own_home)
    assert store.head() == 2


def test_what_says_that_a_connection_was_lost_is_told_from_other_errors(empty_engine: Engine) -> None:
    with pytest.raises(OperationalError) as lost, empty_engine.connect() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert is_connection_lost(lost.value)
    caused = ValueError("while it was handled")
    caused.__cause__ = lost.value
    assert is_connection_lost(caused)
    handled = ValueError("while it was handled")
    handled.__context__ = lost.value
    assert is_connection_lost(handled)
    handled.__suppress_context__ = True  # as `raise ... from None` does
    assert not is_connection_lost(handled)
    with empty_engine.begin() as other, empty_engine.begin() as connection:
        other.execute(text("SELECT pg_advisory_xact_lock(7)"))
        connection.execute(text("SET LOCAL lock_timeout = 1"))
        with pytest.raises(OperationalError) as refused, connection.begin_nested():
            connection.execute(text("SELECT pg_advisory_xact_lock(7)"))
    assert not is_connection_lost(refused.value)
    assert not is_connection_lost(OutageTooLong(waited_s=1, actual="x"))
    assert not is_connection_lost(None)


def test_a_server_that_crashed_or_was_started_again_is_told_from_one_that_answered_all_the_time(
    own_home: Path, opened: Opened
) -> None:
    queue = RolloutQueue(opened("crashed", OutagePatience(60)), "marketplace")

    def another_than(before: str) -> str:
        until = time.monotonic() + AWAY_S * 10
        while time.monotonic() < until:
            with suppress_lost_connection():
                if (found := queue.heartbeats().server) != before:
                    assert queue.heartbeats().server == found
                    return found
            time.sleep(0.05)
        pytest.fail("the server was told to be the same")

    first = another_than("")
    with suppress_lost_connection(), queue.engine.connect() as connection:
        os.kill(int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one()), signal.SIGKILL)
    crashed = another_than(first)
    down(own_home)
    up(own_home)
    assert another_than(crashed) != first


def test_the_time_in_which_the_database_was_away_does_not_count_against_a_run(own_home: Path, opened: Opened) -> None:
    queue = RolloutQueue(opened("limits", OutagePatience(60)), "marketplace")
    queue.put([JobTicket("s", "x")])
    begun, release = Event(), Event()

    def play(_: JobTicket) -> None:
        begun.set()
        assert release.wait(PATIENCE_S)

    worker = Worker(queue, play, replace(QUICK, rescue_after_s=PATIENCE_S, timeout_s=2.5, outage_s=60))
    thread = worker.start()
    assert begun.wait(PATIENCE_S)
    down(own_home)
    time.sleep(3)
    up(own_home)
    release.set()
    thread.join(PATIENCE_S)
    assert (sorted(worker.kinds()), worker.raised) == (["played", "reached", "unreachable"], [])


@asynccontextmanager
async def connected(engine: Engine, **more: Any) -> AsyncIterator[PatientConnector]:
    """A connector of the engine's project that is open."""
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    options = f"-c search_path={project_schema(engine)}"
    pool = {"conninfo": url, "kwargs": {"options": options}, "min_size": 1, "max_size": 2}
    connector = PatientConnector(60, lambda: False, lambda _: None, **pool, **more)
    await connector.open_async()
    yield connector
    await connector.close_async()


def test_what_was_fetched_while_the_connection_broke_is_put_back_and_what_is_played_is_not(
    empty_engine: Engine,
) -> None:
    queue = RolloutQueue(empty_engine, "marketplace")
    queue.put([JobTicket("s", name) for name in "abc"])

    async def fetch_all() -> list[str]:
        async with connected(empty_engine) as connector:
            jobs = HeldJobs(connector)
            worker = await jobs.register_worker()
            found = [await jobs.fetch_job([queue.name], worker)]
            await HeldJobs(connector).fetch_job([queue.name], worker)  # whose answer never came
            await connector._reconnect(connector.pool)
            found += [await jobs.fetch_job([queue.name], worker) for _ in range(2)]
            assert connector.reconnects == 1
            held = [job for job in found if job is not None]
            for job in held:
                await jobs.finish_job(job, Status.SUCCEEDED, True)
        return [str(job.task_kwargs["spec"]) for job in held]

    assert sorted(asyncio.run(fetch_all())) == ["a", "b", "c"]
    assert queue.open() == 0


def test_what_a_worker_put_back_is_not_ended_by_the_late_end_of_its_first_delivery(empty_engine: Engine) -> None:
    queue = RolloutQueue(empty_engine, "marketplace")
    queue.put([JobTicket("s", "x")])
    due = text("UPDATE procrastinate_jobs SET scheduled_at = scheduled_at - interval '1 minute'")

    async def play_twice() -> None:
        async with connected(empty_engine) as connector:
            jobs = HeldJobs(connector)
            worker = await jobs.register_worker()
            first = await jobs.fetch_job([queue.name], worker)
            assert first is not None
            queue.put_back(first)
            with empty_engine.begin() as connection:
                connection.execute(due)
            second = await jobs.fetch_job([queue.name], worker)
            assert second is not None
            await jobs.finish_job(first, Status.SUCCEEDED, True)
            await jobs.retry_job(first)
            await connector._reconnect(connector.pool)
            assert await jobs.fetch_job([queue.name], worker) is None
            assert (queue.holds(first), queue.holds(second)) == (False, True)
            await jobs.finish_job(second, Status.SUCCEEDED, True)

    asyncio.run(play_twice())
    assert queue.open() == 0


class FailingPool(AsyncConnectionPool):
    """A pool that cannot be opened `failures` times, and that fails when it is closed afterwards."""

    failures = 0

    async def open(self, wait: bool = False, timeout: float = 30.0) -> None:
        if FailingPool.failures:
            FailingPool.failures -= 1
            raise PoolTimeout("away again")
        await super().open(wait, timeout)

    async def close(self, timeout: float = 5.0) -> None:
        await super().close(timeout)
        if FailingPool.failures == 0:
            raise psycopg.OperationalError("the connection is closed")


def test_a_second_outage_while_the_connections_are_made_again_is_waited_for_as_well(empty_engine: Engine) -> None:
    async def reconnect() -> int:
        with suppress(ConnectorException):  # as the last pool is closed
            async with connected(empty_engine, pool_factory=FailingPool) as connector:
                FailingPool.failures = 2
                await connector._reconnect(connector.pool)
                assert 0 < connector.seconds_away() < PATIENCE_S
                assert await connector.execute_query_all_async("SELECT 1 AS one") == [{"one": 1}]
        return connector.reconnects

    assert asyncio.run(reconnect()) == 1
    assert FailingPool.failures == 0
