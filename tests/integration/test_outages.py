"""A worker outlives a stop of its database: it waits, keeps its jobs, and plays on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from procrastinate.jobs import Job, Status
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from agents.rollouts.dispatching.held_jobs import HeldJobs
from agents.rollouts.dispatching.outages import PatientConnector
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
    with empty_engine.begin() as other, empty_engine.begin() as connection:
        other.execute(text("SELECT pg_advisory_xact_lock(7)"))
        connection.execute(text("SET LOCAL lock_timeout = 1"))
        with pytest.raises(OperationalError) as refused, connection.begin_nested():
            connection.execute(text("SELECT pg_advisory_xact_lock(7)"))
    assert not is_connection_lost(refused.value)
    assert not is_connection_lost(OutageTooLong(waited_s=1, actual="x"))
    assert not is_connection_lost(None)


def test_no_job_is_taken_from_a_worker_that_could_not_beat_because_the_server_was_down(empty_engine: Engine) -> None:
    queue = RolloutQueue(empty_engine, "marketplace")
    queue.put([JobTicket("s", "x")])
    with empty_engine.begin() as connection:
        connection.execute(
            text("INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '9 years')")
        )
        connection.execute(
            text("UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM procrastinate_workers)")
        )
        age = connection.execute(text("SELECT extract(epoch FROM now() - pg_postmaster_start_time())")).scalar_one()
    assert queue.rescue(float(age) + 600) == ((), ())
    assert queue.rescue(0.01) == ((JobTicket("s", "x"),), ())


def test_what_was_fetched_while_the_connection_broke_is_put_back_and_what_is_played_is_not(
    empty_engine: Engine,
) -> None:
    queue = RolloutQueue(empty_engine, "marketplace")
    queue.put([JobTicket("s", name) for name in "abc"])

    async def fetch_all() -> list[str]:
        told: list[str | None] = []
        url = empty_engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        options = f"-c search_path={project_schema(empty_engine)}"
        pool = {"conninfo": url, "kwargs": {"options": options}, "min_size": 1, "max_size": 2}
        connector = PatientConnector(60, lambda: False, told.append, **pool)
        await connector.open_async()
        jobs = HeldJobs(connector)
        worker = await jobs.register_worker()
        found: list[Job] = []

        async def fetch() -> None:
            job = await jobs.fetch_job([queue.name], worker)
            assert job is not None
            found.append(job)

        await fetch()
        await HeldJobs(connector).fetch_job([queue.name], worker)  # whose answer never came
        await connector._reconnect(connector.pool)
        await fetch()
        await fetch()
        assert (connector.reconnects, told) == (1, [])
        for job in found:
            await jobs.finish_job(job, Status.SUCCEEDED, True)
        await connector.close_async()
        return [str(job.task_kwargs["spec"]) for job in found]

    assert sorted(asyncio.run(fetch_all())) == ["a", "b", "c"]
    assert queue.open() == 0
