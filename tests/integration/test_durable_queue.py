"""The durable queue: put with the sweep or not at all, never twice, freed when a worker is lost, parked with errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event, Thread

import pytest
from sqlalchemy import Engine, text

from agents.executors.policy import PolicyExecutor
from agents.learning.memory import forget_everything
from agents.models.scripted import Scripted
from agents.rollouts.dispatching.durable import Facts, Notice, Runner, Terms
from agents.rollouts.dispatching.queue import LOST, TRIES, JobTicket, Parked, RolloutQueue, tickets
from agents.rollouts.dispatching.state_keys import StateKey
from agents.rollouts.errors import WorkerLost
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.house import House
from api.locks import is_controlled, only_controller
from api.sweeps.backlog import Backlog
from api.sweeps.executors import recorded_as
from eventlog.database import open_engine
from eventlog.errors import DatabaseRefused, LogFull, StatementEnded
from eventlog.events import RunMissing, SweepPlanned
from eventlog.store import Append, Committed, Conflict, Position, Rejected, Repeated
from tests.conftest import Database
from tests.integration.test_rollouts import MADE

PATIENCE_S = 60.0
QUICK = Terms(max_parallel=2, rescue_after_s=0.6, heartbeat_s=0.1, until_empty=True)


def a_sweep(name: str = "s1", seeds: int = 2) -> SweepPlanned:
    """Two specs for each seed, one of them in the session `k`."""
    event = plan_sweep(
        SeedSweep(name, MADE[:1], range(seeds), 2), "marketplace", forget_everything("base")[0], rng_seed=7
    )
    specs = [spec.model_copy(update={"state_key": "k"} if spec.sibling_index else {}) for spec in event.specs]
    return event.model_copy(update={"specs": tuple(specs)})


def append_of(event: SweepPlanned) -> Append:
    return Append(f"sweep/{event.sweep}", (event,), "test", expect=0, key=f"sweep:{event.sweep}")


@pytest.fixture
def queue(empty_engine: Engine) -> RolloutQueue:
    return RolloutQueue(empty_engine, "marketplace")


def jobs(queue: RolloutQueue) -> list[tuple[str, str, str | None]]:
    """Each job's spec, status and lock, in order."""
    with queue.engine.connect() as connection:
        found = connection.execute(
            text("SELECT args->>'spec', status::text, lock FROM procrastinate_jobs ORDER BY id")
        ).all()
    return [(spec, status, lock) for spec, status, lock in found]


@dataclass
class Worker:
    """A worker in a thread of this process, and what it told."""

    queue: RolloutQueue
    play: Callable[[JobTicket], None]
    terms: Terms = QUICK
    may_play: Callable[[], bool] = lambda: True
    told: list[Notice] = field(default_factory=list)
    raised: list[Exception] = field(default_factory=list)
    give_up: Callable[[JobTicket], None] = lambda _: None
    refill: Callable[[], int] = lambda: 0
    limit_s: Callable[[JobTicket], float] | None = None
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def run(self) -> None:
        def play(ticket: JobTicket, _: StateKey) -> Facts:
            self.play(ticket)
            return {}

        told, limit_s = self.told.append, self.limit_s
        runner = Runner(self.queue, play, self.give_up, self.refill, told, self.terms, self.may_play, limit_s)
        try:
            self._loop.run_until_complete(runner.run(self._stop))
        except WorkerLost as error:
            self.raised.append(error)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())  # its threads hold connections
            self._loop.close()

    def start(self) -> Thread:
        thread = Thread(target=self.run)
        thread.start()
        return thread

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.told]


def test_a_sweep_and_its_jobs_are_there_together(queue: RolloutQueue, empty_house: House) -> None:
    event = a_sweep()
    assert queue.plan(append_of(event), tickets(event)) == (Committed(Position(1), Position(1), 1),)
    assert [each.event for each in empty_house.store.read()] == [event]
    lock = f"state:{tickets(event)[1].state.profile}"
    assert jobs(queue) == [(spec.spec_id, "todo", lock if spec.state_key else None) for spec in event.specs]


def test_what_is_appended_along_is_there_with_the_sweep_or_not_at_all(queue: RolloutQueue, empty_house: House) -> None:
    event, another = a_sweep(), replace(append_of(a_sweep()), stream="along", key="along")
    with pytest.raises(DatabaseRefused):
        queue.plan(append_of(event), [JobTicket("s1", "x", "k\0")], [another])
    assert list(empty_house.store.read()) == []
    assert not isinstance(queue.plan(append_of(event), tickets(event), [another]), Rejected)
    assert [each.stream for each in empty_house.store.read()] == [append_of(event).stream, "along"]


def test_neither_is_there_where_the_jobs_cannot_be_put(queue: RolloutQueue, empty_house: House) -> None:
    event = a_sweep()
    with pytest.raises(DatabaseRefused, match="unsupported Unicode"):
        queue.plan(append_of(event), [*tickets(event), JobTicket("s1", "x", "k\0")])
    assert list(empty_house.store.read()) == []
    assert jobs(queue) == []


def test_a_plan_that_would_wait_too_long_says_to_try_again(queue: RolloutQueue, empty_house: House) -> None:
    url = queue.engine.url.update_query_dict({"options": "-c lock_timeout=20"})
    impatient, event = open_engine(url.render_as_string(hide_password=False)), a_sweep()
    with queue.engine.connect() as other:
        other.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))"))
        with pytest.raises(StatementEnded, match=r"55P03.*Try again"):
            RolloutQueue(impatient, queue.environment).plan(append_of(event), tickets(event))
    impatient.dispose()
    assert (jobs(queue), list(empty_house.store.read())) == ([], [])


def test_a_plan_that_no_partition_takes_says_that_the_log_is_full(
    queue: RolloutQueue, empty_database: Database, empty_house: House
) -> None:
    owner, event = open_engine(empty_database.owner_url), a_sweep()
    with owner.begin() as connection:
        connection.execute(text("DROP TABLE events_1"))
    owner.dispose()
    with pytest.raises(LogFull, match=r"position 1:.*flywheel db migrate"):
        queue.plan(append_of(event), tickets(event))
    assert (jobs(queue), list(empty_house.store.read())) == ([], [])


def test_planning_again_or_in_vain_puts_no_jobs_and_appends_nothing_along(
    queue: RolloutQueue, empty_house: House
) -> None:
    event = a_sweep()
    queue.plan(append_of(event), tickets(event))
    before = jobs(queue)
    assert queue.plan(append_of(event), tickets(event)) == (Repeated(Position(1), Position(1)),)
    other, along = replace(append_of(event), key="another"), replace(append_of(event), stream="along", key="along")
    refused = Rejected((Conflict(other.stream, 0, 1), None))
    assert queue.plan(other, tickets(event), [replace(along, expect=None)]) == refused
    assert jobs(queue) == before
    assert [each.stream for each in empty_house.store.read()] == [other.stream]


def test_many_that_put_the_same_jobs_at_once_put_each_once_and_in_order(queue: RolloutQueue) -> None:
    wanted = [JobTicket("s", f"run{number}", "k") for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda _: queue.put(wanted), range(4)))
    assert sorted(added) == [0, 0, 0, 20]
    assert [spec for spec, _, _ in jobs(queue)] == [ticket.spec for ticket in wanted]
    assert queue.put([]) == 0


def test_queues_of_projects_and_environments_never_share_a_channel(queue: RolloutQueue) -> None:
    names = {queue.name, RolloutQueue(queue.engine, "helpdesk").name, RolloutQueue(queue.engine, "é" * 200).name}
    assert len(names) == 3
    assert all(len(f"procrastinate_queue_v1#{name}".encode()) < 64 for name in names)
    RolloutQueue(queue.engine, "é" * 200).put([JobTicket("s", "x")])


def test_what_was_lost_is_put_again_from_the_log_and_what_ended_is_not(queue: RolloutQueue, empty_house: House) -> None:
    event, store = a_sweep(), empty_house.store
    queue.plan(append_of(event), tickets(event))
    first = event.specs[0]
    missing = RunMissing(run=first.spec_id, group=first.group_id, reason="platform_error", detail="x")
    store.append([Append(f"run/{first.spec_id}", (missing,), "test")])
    before = jobs(queue)
    backlog = Backlog(empty_house, "marketplace")
    assert backlog.refill(queue) == 0
    with queue.engine.begin() as connection:
        connection.execute(text("DELETE FROM procrastinate_jobs"))
    assert backlog.refill(queue) == len(event.specs) - 1
    assert jobs(queue) == before[1:]
    assert Backlog(empty_house, "helpdesk").refill(RolloutQueue(queue.engine, "helpdesk")) == 0
    later = a_sweep("s2")
    store.append([append_of(later)])
    assert backlog.refill(queue) == len(later.specs)


def test_only_what_was_planned_for_the_executor_and_its_model_is_put_again(
    queue: RolloutQueue, empty_house: House
) -> None:
    policy = PolicyExecutor(Scripted([]))
    name, model = recorded_as(policy)
    for event in (
        a_sweep("walked"),
        a_sweep("asked").model_copy(update={"executor": name, "model": model}),
        a_sweep("other").model_copy(update={"executor": name, "model": "openai:other"}),
    ):
        empty_house.store.append([append_of(event)])
    assert {ticket.sweep for ticket in Backlog(empty_house, "marketplace").pending_tickets()} == {"walked"}
    assert {ticket.sweep for ticket in Backlog(empty_house, "marketplace", policy).pending_tickets()} == {"asked"}


def test_a_run_of_any_name_that_ended_is_not_put_again(queue: RolloutQueue, empty_house: House) -> None:
    event = a_sweep()
    named = tuple(spec.model_copy(update={"spec_id": f"other-{place}"}) for place, spec in enumerate(event.specs))
    event = event.model_copy(update={"specs": named})
    empty_house.store.append([append_of(event)])
    missing = RunMissing(run="other-0", group="g", reason="platform_error", detail="x")
    empty_house.store.append([Append("run/other-0", (missing,), "test")])
    assert Backlog(empty_house, "marketplace").refill(queue) == len(event.specs) - 1


def test_while_a_controller_works_on_the_site_its_sweeps_are_left_to_it(
    queue: RolloutQueue, empty_house: House
) -> None:
    event = a_sweep()
    empty_house.store.append([append_of(event)])
    backlog = Backlog(empty_house, "marketplace")
    with only_controller(empty_house, "marketplace"):
        assert backlog.refill(queue) == 0
    assert backlog.refill(queue) == len(event.specs)


def test_a_job_that_raises_is_tried_again_then_parked_with_its_error_and_given_out_again_when_asked(
    queue: RolloutQueue,
) -> None:
    tried: list[str] = []

    def play(ticket: JobTicket) -> None:
        tried.append(ticket.spec)
        if ticket.spec == "bad":
            raise KeyError("no such\0thing")

    bad = JobTicket("s", "bad", "k")
    queue.put([bad, JobTicket("s", "good", "k"), JobTicket("s", "free")])
    worker = Worker(queue, play)
    worker.run()
    assert tried.count("bad") == TRIES
    assert [kind for kind in worker.kinds() if kind in ("failed", "parked")] == ["failed"] * (TRIES - 1) + ["parked"]
    assert queue.parked_jobs() == (Parked(bad, "KeyError: 'no such\\x00thing'"),)
    assert tried.index("good") > max(place for place, name in enumerate(tried) if name == "bad")
    assert queue.put([bad]) == 0

    assert queue.retry_parked() == 1
    assert queue.parked_jobs() == ()
    Worker(queue, play).run()
    assert tried.count("bad") == 2 * TRIES
    queue.retry_parked()
    Worker(queue, lambda _: None).run()
    assert jobs(queue) == []


def test_a_lost_workers_jobs_keep_their_place_and_are_parked_when_they_lose_too_many(queue: RolloutQueue) -> None:
    wanted = [JobTicket("s", "a0", "k"), JobTicket("s", "a1", "k"), JobTicket("s", "x")]
    queue.put(wanted)
    take = text("SELECT spec FROM (SELECT (procrastinate_fetch_job_v2(NULL, :worker)).args->>'spec' AS spec) f")
    for number in range(1, TRIES + 1):
        with queue.engine.begin() as connection:
            worker = connection.execute(text("SELECT worker_id FROM procrastinate_register_worker_v1()")).scalar_one()
            taken = [connection.execute(take, {"worker": worker}).scalar_one() for _ in range(2)]
            assert taken == ["a0", "x"]
        assert queue.rescue({}) == ((), ())
        freed, parked = queue.rescue(queue.heartbeats().beats)
        assert [ticket.spec for ticket in (parked if number == TRIES else freed)] == ["a0", "x"]
        assert queue.rescue(queue.heartbeats().beats) == ((), ())
    assert [(spec, status) for spec, status, _ in jobs(queue)] == [("a0", "failed"), ("a1", "todo"), ("x", "failed")]
    assert {each.error for each in queue.parked_jobs()} == {LOST}


def test_a_worker_stays_for_jobs_that_another_one_added_when_it_found_the_queue_empty(queue: RolloutQueue) -> None:
    played, left = list[str](), [JobTicket("s", "x")]

    def refill_late() -> int:
        if left:
            queue.put([left.pop()])
        return 0

    Worker(queue, lambda ticket: played.append(ticket.spec), refill=refill_late).run()
    assert played == ["x"]


def test_a_worker_told_to_stop_is_heard_of_until_what_is_under_way_has_ended(queue: RolloutQueue) -> None:
    begun, release = Event(), Event()

    def slow(_: JobTicket) -> None:
        begun.set()
        assert release.wait(PATIENCE_S)

    queue.put([JobTicket("s", "a0", "k"), JobTicket("s", "a1", "k")])
    worker = Worker(queue, slow, replace(QUICK, until_empty=False))
    thread = worker.start()
    try:
        assert begun.wait(PATIENCE_S)
        worker.stop()
        ((worker_id, first),) = queue.heartbeats().beats.items()
        assert heartbeats(queue, 20)
        rescued = queue.rescue({worker_id: first})
        queue.forget_workers({worker_id: first})
    finally:
        release.set()
        thread.join()
    assert rescued == ((), ())
    assert (worker.kinds(), worker.raised) == (["played"], [])
    assert [(spec, status) for spec, status, _ in jobs(queue)] == [("a1", "todo")]


def heartbeats(queue: RolloutQueue, number: int) -> list[object]:
    """Wait for so many different signs of life of the one worker."""
    seen: list[object] = []
    while len(seen) < number:
        with queue.engine.connect() as connection:
            sign = connection.execute(text("SELECT last_heartbeat FROM procrastinate_workers")).scalar_one()
        if sign not in seen:
            seen.append(sign)
    return seen


def test_a_worker_that_loses_its_queue_says_so(queue: RolloutQueue, empty_database: Database) -> None:
    begun = Event()
    queue.put([JobTicket("s", "x")])
    worker = Worker(queue, lambda _: begun.set(), replace(QUICK, until_empty=False))
    thread = worker.start()
    assert begun.wait(PATIENCE_S)
    with queue.engine.begin() as connection:  # as another worker does that takes this one for lost
        connection.execute(text("DELETE FROM procrastinate_workers"))
    queue.put([JobTicket("s", "y")])
    thread.join(PATIENCE_S)
    assert [type(error) for error in worker.raised] == [WorkerLost]
    assert [(spec, status) for spec, status, _ in jobs(queue)] == [("y", "todo")]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_job_met_while_a_controller_works_waits_and_is_put_back_where_the_worker_stops(
    queue: RolloutQueue, empty_house: House, *, is_stopped: bool
) -> None:
    looked, played = Event(), Event()

    def may_play() -> bool:
        is_free = not is_controlled(queue.engine, "marketplace")
        looked.set()
        return is_free

    queue.put([JobTicket("s", "a0", "k"), JobTicket("s", "a1", "k")])
    worker = Worker(queue, lambda _: played.set(), replace(QUICK, until_empty=not is_stopped), may_play)
    with only_controller(empty_house, "marketplace"):
        thread = worker.start()
        assert looked.wait(PATIENCE_S)
        if is_stopped:
            worker.stop()
            thread.join(PATIENCE_S)
        assert not played.is_set()
    thread.join(PATIENCE_S)
    assert worker.raised == []
    assert worker.kinds() == ([] if is_stopped else ["played", "played"])
    with queue.engine.connect() as connection:
        left = connection.execute(text("SELECT status::text, attempts FROM procrastinate_jobs ORDER BY id")).all()
    assert [tuple(row) for row in left] == ([("todo", 0)] * 2 if is_stopped else [])


def test_a_job_is_given_up_after_its_own_time_and_others_are_not(queue: RolloutQueue) -> None:
    given_up, release = [], Event()

    def play(ticket: JobTicket) -> None:
        if ticket.spec == "short":
            assert release.wait(PATIENCE_S)

    def give_up(ticket: JobTicket) -> None:
        given_up.append(ticket.spec)
        release.set()

    queue.put([JobTicket("s", "short"), JobTicket("s", "long")])
    worker = Worker(queue, play, replace(QUICK, timeout_s=PATIENCE_S))
    worker.give_up, worker.limit_s = give_up, lambda ticket: 0.1 if ticket.spec == "short" else PATIENCE_S
    worker.start().join(2 * PATIENCE_S)
    assert (worker.raised, given_up, sorted(worker.kinds())) == ([], ["short"], ["played", "timed_out"])


@pytest.mark.parametrize("ending", ["played", "raised", "timed out"])
def test_a_worker_that_wakes_leaves_the_job_to_who_plays_it_now(queue: RolloutQueue, ending: str) -> None:
    begun, release = Event(), Event()
    given_up: list[JobTicket] = []

    def slow(_: JobTicket) -> None:
        begun.set()
        assert release.wait(PATIENCE_S)
        if ending == "raised":
            raise RuntimeError("disk full")

    queue.put([JobTicket("s", "x")])
    patient = replace(QUICK, max_parallel=1, rescue_after_s=PATIENCE_S, until_empty=False)
    worker = Worker(queue, slow, replace(patient, timeout_s=1) if ending == "timed out" else patient)
    worker.give_up = given_up.append
    thread = worker.start()
    try:
        assert begun.wait(PATIENCE_S)
        with queue.engine.begin() as connection:  # as for one that was not heard of while it was frozen
            other = connection.execute(text("SELECT worker_id FROM procrastinate_register_worker_v1()")).scalar_one()
            taken = text("UPDATE procrastinate_jobs SET worker_id = :other, attempts = attempts + 1")
            connection.execute(taken, {"other": other})
        if ending != "timed out":
            release.set()
        worker.stop()
        thread.join(PATIENCE_S)
    finally:
        release.set()
    assert (worker.raised, given_up) == ([], [])
    assert [(spec, status) for spec, status, _ in jobs(queue)] == [("x", "doing")]
