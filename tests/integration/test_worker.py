"""`flywheel worker`, several processes with homes and sites of their own: each spec ends once, sessions in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, text

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors.policy import PolicyExecutor
from agents.learning.memory import forget_everything
from agents.models.scripted import Scripted
from agents.rewards import DEFAULT_PRICES
from agents.rollouts.dispatching.durable import Terms
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue, tickets
from agents.rollouts.dispatching.state_keys import independent
from agents.rollouts.play import PLAN
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.errors import PlayedInVain
from api.house import House
from api.sweeps.executors import recorded_as
from api.sweeps.worker import SiteRunner
from eventlog.errors import FlywheelError
from eventlog.events import RunFinished, RunMissing, RunStarted, SweepPlanned
from eventlog.store import Append, Rejected
from projections.engine.views import ReplayedViews
from projections.runs import RUNS
from tests.conftest import Database
from tests.integration.conftest import Start
from tests.integration.test_rollouts import MADE

PATIENCE_S = 100


@pytest.fixture
def queue(empty_engine: Engine) -> RolloutQueue:
    return RolloutQueue(empty_engine, "marketplace")


def plan(
    house: House, queue: RolloutQueue, name: str = "s1", seeds: int = 10, *, has_memory: bool = True, **planned_for: str
) -> SweepPlanned:
    """Two specs for each seed: one is independent, the other of one of three sessions."""
    artifact, memory = forget_everything("base")
    if has_memory:
        house.blobs.put([memory])
    event = plan_sweep(SeedSweep(name, MADE[:1], range(seeds), 2), "marketplace", artifact, rng_seed=7)
    specs = tuple(
        spec.model_copy(update={"state_key": f"k{spec.env_seed % 3}"} if spec.sibling_index else {})
        for spec in event.specs
    )
    event = event.model_copy(update={"specs": specs, **planned_for})
    append = Append(f"sweep/{name}", (event,), "test", expect=0, key=f"sweep:{name}")
    assert not isinstance(queue.plan(append, tickets(event)), Rejected)
    return event


def told(line: str) -> dict[str, Any]:
    return dict(json.loads(line))


def read_until(child: subprocess.Popen[str], event: str) -> list[dict[str, Any]]:
    """What a worker tells, up to the first event of a kind. One that does not tell it in time is killed."""
    assert child.stdout is not None
    seen: list[dict[str, Any]] = []
    patience = threading.Timer(PATIENCE_S, child.kill)
    patience.start()
    try:
        while not seen or seen[-1]["event"] != event:
            line = child.stdout.readline()
            assert line, f"it told of no {event!r}, only {seen}: {child.stderr.read() if child.stderr else ''}"
            seen.append(told(line))
    finally:
        patience.cancel()
        patience.join()
    return seen


def stop_while_it_plays(child: subprocess.Popen[str], engine: Engine) -> list[str]:
    """Stop a worker at a moment at which it plays specs: those."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        child.send_signal(signal.SIGSTOP)
        playing = doing(engine)
        while playing and playing != (settled := after_a_moment(engine)):
            playing = settled  # a statement that was under way has ended a job since
        if playing:
            return playing
        assert child.poll() is None, "the worker ended before it was stopped"
        child.send_signal(signal.SIGCONT)
        time.sleep(0.005)
    pytest.fail("whenever the worker was stopped, it played nothing")


def after_a_moment(engine: Engine) -> list[str]:
    time.sleep(0.2)
    return doing(engine)


def finished(child: subprocess.Popen[str], code: int = 0) -> list[dict[str, Any]]:
    """What a worker tells up to its end."""
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == code, err
    return [told(line) for line in out.splitlines()]


def doing(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT args->>'spec' FROM procrastinate_jobs WHERE status = 'doing'"))
        return list(found.scalars())


def assert_each_ended_once_in_order(house: House, sweep: SweepPlanned) -> None:
    """Every spec of the sweep started once and ended once; in a session each ended before the next started."""
    starts: dict[str, list[int]] = {}
    ends: dict[str, list[int]] = {}
    for recorded in house.store.read():
        if isinstance(recorded.event, RunStarted):
            starts.setdefault(recorded.event.run, []).append(recorded.position)
        if isinstance(recorded.event, RunFinished | RunMissing):
            ends.setdefault(recorded.event.run, []).append(recorded.position)
    wanted = {spec.spec_id: 1 for spec in sweep.specs}
    assert {run: len(found) for run, found in starts.items()} == wanted
    assert {run: len(found) for run, found in ends.items()} == wanted
    for key in {spec.state_key for spec in sweep.specs} - {None}:
        lane = [spec.spec_id for spec in sweep.specs if spec.state_key == key]
        assert all(ends[one][0] < starts[next_][0] for one, next_ in pairwise(lane))


def test_two_workers_share_a_sweep_and_one_that_is_killed_loses_nothing(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    sweep = plan(empty_house, queue, seeds=16)
    first = start("--max-parallel", "3", "--until-empty")
    read_until(first, "played")
    held = stop_while_it_plays(first, queue.engine)
    second = start("--max-parallel", "3", "--rescue-after", "4", "--until-empty")
    first.kill()
    events = finished(second)
    rescued = {each["run"] for each in events if each["event"] == "rescued"}
    played = {each["run"] for each in events if each["event"] == "played" and each["status"] != "ended before"}
    assert rescued == set(held)
    assert 0 < len(played) < len(sweep.specs)
    assert_each_ended_once_in_order(empty_house, sweep)
    assert queue.open() == 0


@pytest.mark.costly("the one worker that imports what it needs itself, as its site does")
@pytest.mark.usefixtures("cold_starts")
def test_what_was_emptied_out_of_the_queue_is_put_again_from_the_log_from_a_cold_start(
    empty_house: House, queue: RolloutQueue, start: Start, empty_database: Database
) -> None:
    sweep = plan(empty_house, queue, seeds=3)
    with queue.engine.begin() as connection:
        connection.execute(text("DELETE FROM procrastinate_jobs"))
    events = finished(start("--until-empty", "--roles", "runner,projector"))
    assert next(each["count"] for each in events if each["event"] == "added") == len(sweep.specs)
    assert_each_ended_once_in_order(empty_house, sweep)
    assert [each.event for each in empty_house.store.read(types=["PriceBookSet"])] != []
    with queue.engine.connect() as connection:
        positions = connection.execute(text("SELECT DISTINCT position FROM builds WHERE is_live")).scalars().all()
    assert positions == [empty_house.store.head()]
    runs = ReplayedViews(empty_house.store, empty_house.store.head()).find(RUNS)
    assert Counter(run.status for run in runs.values())["missing"] == 0


def test_a_worker_told_to_stop_ends_what_is_under_way_and_leaves_the_rest(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    sweep = plan(empty_house, queue, seeds=100)
    worker = start("--max-parallel", "2")
    read_until(worker, "played")
    worker.send_signal(signal.SIGTERM)
    events = finished(worker)
    assert events[-1]["event"] == "stopped"
    assert 0 < events[-1]["open"] == queue.open() < len(sweep.specs)
    assert doing(queue.engine) == []
    counts = empty_house.store.counts()
    assert counts["RunStarted"] == counts["RunFinished"] + counts.get("RunMissing", 0)


def test_a_worker_whose_site_is_gone_stops_and_leaves_the_rest_to_others(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    finished(start("--until-empty"))  # which admits the site
    sweep = plan(empty_house, queue, seeds=100)
    with local_site("marketplace") as site:
        worker = start(*("--url", site.url, "--admin-url", site.admin_url), FLYWHEEL_ENV_ADMIN_TOKEN=site.admin_token)
        read_until(worker, "played")
        assert site.pid is not None
        os.kill(site.pid, signal.SIGKILL)
        _, err = worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 1
    assert site.admin_url in err
    assert doing(queue.engine) == []
    assert len(sweep.specs) / 2 < queue.open() < len(sweep.specs)


def test_jobs_that_cannot_be_made_stay_parked_until_asked_for(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    sweep = plan(empty_house, queue, seeds=2, has_memory=False)
    events = finished(start("--until-empty"), code=1)
    assert events[-1] == {"event": "stopped", "open": 0, "parked": len(sweep.specs)}
    assert {each["error"].partition(":")[0] for each in events if each["event"] == "parked"} == {"BlobMissing"}
    empty_house.blobs.put([forget_everything("base")[1]])
    events = finished(start("--until-empty", "--retry-parked"))
    assert events[0] == {"event": "again", "count": len(sweep.specs)}
    assert_each_ended_once_in_order(empty_house, sweep)


def test_jobs_that_were_planned_for_another_executor_stay_parked(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    plan(empty_house, queue, seeds=1, executor="policy", model="openai:m1")
    events = finished(start("--until-empty"), code=1)
    errors = {each["error"] for each in events if each["event"] == "parked"}
    assert {error.partition(":")[0] for error in errors} == {"OtherExecutor"}
    assert all("FLYWHEEL_MODEL=m1 flywheel worker --site marketplace --executor policy" in error for error in errors)
    assert "RunStarted" not in empty_house.store.counts()


def test_roles_that_are_none_are_refused(start: Start) -> None:
    worker = start("--roles", "runner,judge")
    _, err = worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 64
    assert "'runner,judge' is not a list of roles" in err


def test_a_projector_alone_brings_projections_to_the_head(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    plan(empty_house, queue, seeds=1)
    finished(start("--roles", "projector", "--until-empty"))
    with queue.engine.connect() as connection:
        positions = connection.execute(text("SELECT DISTINCT position FROM builds WHERE is_live")).scalars().all()
    assert positions == [empty_house.store.head()]


def test_a_worker_plays_on_no_site_that_is_another_or_not_admitted(
    empty_house: House, queue: RolloutQueue, start: Start
) -> None:
    plan(empty_house, queue, seeds=1)
    with local_site("marketplace") as site:
        at = ("--url", site.url, "--admin-url", site.admin_url)
        other = start(*at, "--site", "helpdesk", FLYWHEEL_ENV_ADMIN_TOKEN=site.admin_token)
        assert "says that it is 'marketplace'" in other.communicate(timeout=PATIENCE_S)[1]
        unknown = start(*at, FLYWHEEL_ENV_ADMIN_TOKEN=site.admin_token)
        assert "marketplace is not admitted" in unknown.communicate(timeout=PATIENCE_S)[1]
    assert (other.returncode, unknown.returncode) == (1, 1)
    assert "RunStarted" not in empty_house.store.counts()


@pytest.mark.parametrize(("cause", "lost_after"), [("token", 1), ("task", 1), ("model", 3)])
def test_a_worker_stops_where_all_that_follows_would_be_missing_too(
    empty_house: House, queue: RolloutQueue, cause: str, lost_after: int
) -> None:
    sweep = plan(empty_house, queue, seeds=3)
    if cause == "task":
        renamed = sweep.templates[0].model_copy(update={"oracle_task_id": "marketplace.unheard_of"})
        sweep = sweep.model_copy(update={"sweep": "s2", "templates": (renamed,)})
        empty_house.store.append([Append("sweep/s2", (sweep,), "test")])
    if cause == "model":
        name, model = recorded_as(PolicyExecutor(Scripted([])))
        sweep = sweep.model_copy(update={"sweep": "s2", "executor": name, "model": model})
        empty_house.store.append([Append("sweep/s2", (sweep,), "test")])
    empty_house.store.append([Append("prices", (DEFAULT_PRICES,), "test")])
    lost: list[FlywheelError] = []
    with (
        local_site("marketplace") as site,
        EnvClient(site.admin_url, "no token of it" if cause == "token" else site.admin_token) as client,
    ):
        executor = PolicyExecutor(Scripted([])) if cause == "model" else PLAN
        runner = SiteRunner(empty_house, client, "marketplace", Terms(), lost.append, executor)
        for number, spec in enumerate(sweep.specs[::2], start=1):
            facts = runner.play(JobTicket(sweep.sweep, spec.spec_id), independent(spec.spec_id))
            assert facts["status"] == "missing"
            assert bool(lost) == (number >= lost_after)
    assert {type(error) for error in lost} == {PlayedInVain}
