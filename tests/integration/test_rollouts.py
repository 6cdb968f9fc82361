"""Rollouts against the marketplace in a process of its own: what a run leaves in the log, whatever happens to it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx2
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.envs.environment import instance_id
from agents.envs.errors import EnvironmentDown
from agents.envs.provider import Site, local_site
from agents.envs.sites.marketplace.drift import CANONICAL, drift_family
from agents.envs.sites.marketplace.tasks import TASKS
from agents.envs.unclosed_instances import UNCLOSED
from agents.learning.memory import forget_everything
from agents.plans import Piece, anchor_of, plan_from, rewrite_id
from agents.rollouts.dispatching.dispatch import Call, Dispatch, Outcome
from agents.rollouts.play import TRIES, Job, Means, Played, play, start_facts
from agents.rollouts.record import abandon, rollout, stopwatch
from agents.rollouts.sweep import SeedSweep, plan_sweep
from agents.rollouts.trials import TrialPiece
from api.history.withdraw import withdraw_runs
from benchmarks.shipped import templates
from eventlog.blobs import MemoryBlobs
from eventlog.events import (
    ArmRun,
    FollowLink,
    RecoveryDecided,
    RewardGraded,
    RunFinished,
    RunMissing,
    RunStarted,
    SeedsRule,
)
from eventlog.memory import MemoryStore
from eventlog.store import Acceptance, Append, Refusal, Rejected
from projections.rewards import REWARDS
from projections.rewrites import REWRITES
from projections.runs import RUNS
from tests.sites import SharedSite
from tests.unit.test_agent_samples import BOOK, EMPTY, EVERY_GROUP, a_store, views

MADE = templates({task.task_id: task.instruction for task in TASKS})
BY_ID = {template.template_id: template for template in MADE}
OPEN = MADE[0].plan_steps[0]
FOLLOW = FollowLink(page="/", label="Boats for sale")
FIX = Piece(rewrite_id(anchor_of(OPEN), FOLLOW), anchor_of(OPEN), FOLLOW, 0, 750_000)
CANONICAL_SEED = next(seed for seed in range(9) if drift_family(seed) is CANONICAL)
DRIFTED_SEED = next(seed for seed in range(9) if drift_family(seed) is not CANONICAL)
SEALED_SEED = next(seed for seed in range(10_000, 10_009) if drift_family(seed) is not CANONICAL)
RULE = SeedsRule()


@dataclass(frozen=True)
class Room:
    """A log with its blobs, and a site to play on."""

    client: EnvClient
    store: MemoryStore = field(default_factory=a_store)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)

    def play(self, job: Job) -> Played:
        return rollout(job, self.store, self.blobs, Means(self.client, BOOK, RULE, stopwatch))

    def types(self, run: str) -> list[str]:
        return [recorded.event.type for recorded in self.store.read(stream=f"run/{run}")]

    def events(self, kind: str) -> list[Any]:
        return [recorded.event for recorded in self.store.read(types=[kind])]


def patient(site: Site) -> EnvClient:
    """A client that does not wait between its tries."""
    return EnvClient(site.admin_url, site.admin_token, pause=lambda _: None)


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[EnvClient]:
    with patient(site) as opened:
        yield opened


@pytest.fixture
def room(client: EnvClient) -> Room:
    return Room(client)


def dispatched(todo: Sequence[Job], work: Callable[[Job], Played], max_parallel: int) -> Dispatch[Job, Played]:
    """Independent calls of these jobs."""
    return Dispatch([Call(job) for job in todo], lambda job, _: work(job), max_parallel=max_parallel)


def jobs(seeds: Sequence[int], siblings: int = 1, candidate: Piece | None = None) -> list[Job]:
    """A sweep's jobs in order; where there is a candidate, the last siblings carry it."""
    tried = () if candidate is None else (TrialPiece(candidate, 0),)
    sweep = SeedSweep("s1", MADE, seeds, siblings)
    event = plan_sweep(sweep, "marketplace", EMPTY, rng_seed=7, candidates=tried, trials=EVERY_GROUP)
    return [
        Job(
            spec=spec,
            template=BY_ID[spec.template],
            environment="marketplace",
            artifact=EMPTY,
            pieces=(),
            candidate=None if spec.candidate is None else candidate,
            arm=None,
            learns=True,
        )
        for spec in event.specs
    ]


def outcome(played: Played) -> object:
    """Everything of a run but the time that it took, and what follows from that."""
    plain = [event.model_dump(mode="json") for event in played.events]
    for event in plain:
        if event["type"] == "RunFinished":
            event["usage"].pop("wall_microseconds")
        if event["type"] == "RewardGraded":
            for key in ("cost", "value", "terms", "shaped"):
                event.pop(key)
    return plain, [blob.digest for blob in played.blobs], played.proposals


def test_a_run_is_started_reset_stepped_finished_and_graded(room: Room) -> None:
    job = jobs([CANONICAL_SEED])[0]
    room.play(job)
    steps = len(job.template.plan_steps)
    assert room.types(job.run) == ["RunStarted", "InstanceReset", *["StepTaken"] * steps, "RunFinished", "RewardGraded"]
    run, reward = views(room.store).get(RUNS, job.run), views(room.store).get(REWARDS, job.run)
    assert run is not None
    assert reward is not None
    assert (run.status, run.steps, run.mutations, run.memory) == ("completed", steps, 1, EMPTY.memory.digest)
    assert (reward.score, reward.passed) == (1_000_000, True)
    assert reward.cost is not None
    assert reward.value == 1_000_000 - reward.cost // 10
    begun = room.events("RunStarted")[0]
    assert plan_from(room.blobs.get(begun.plan).body) == job.template.plan_steps
    ended = room.events("RunFinished")[0]
    assert [change["operation"] for change in json.loads(room.blobs.get(ended.end_state).body)] == ["lead_submitted"]
    pages = [event.observation for event in room.events("StepTaken") if event.observation is not None]
    assert all("/i/" not in room.blobs.get(page).body.decode() for page in pages)


def test_a_run_that_fails_leaves_proposals_that_a_treated_run_passes_with(room: Room) -> None:
    untreated = jobs([DRIFTED_SEED])[0]
    room.play(untreated)
    assert room.types(untreated.run)[-3:] == ["RunFinished", "RewardGraded", "RecoveryDecided"]
    found = {event.rewrite: event for event in room.events("RewriteProposed")}
    assert FIX.piece in found
    assert found[FIX.piece].change == FOLLOW
    assert {event.run for event in found.values()} == {untreated.run}
    treated = next(job for job in jobs([DRIFTED_SEED], 2, FIX) if job.candidate is not None)
    room.play(treated)
    run, reward = views(room.store).get(RUNS, treated.run), views(room.store).get(REWARDS, treated.run)
    assert run is not None
    assert reward is not None
    assert (run.candidate, run.applied, reward.passed) == (FIX.piece, (FIX.piece,), True)


def test_a_treated_run_carries_exactly_its_one_candidate_beside_its_artifact(room: Room) -> None:
    other = Piece("rw-other", anchor_of(OPEN), FollowLink(page="/", label="Advice"), 9, 0)
    for job in jobs([CANONICAL_SEED, DRIFTED_SEED], 2, FIX):
        event, _ = start_facts(replace(job, pieces=(other,)))
        expected = "rw-other" if job.candidate is None else FIX.piece
        assert [applied.piece for applied in event.applied] == [expected]
        assert event.spec.candidate == (None if job.candidate is None else FIX.piece)
        assert (job.candidate is None) == (job.spec.sibling_index == 0)


def test_a_treated_run_that_fails_proposes_nothing(room: Room) -> None:
    wrong = Piece("rw-wrong", anchor_of(OPEN), FollowLink(page="/", label="Advice"), 0, 0)
    job = next(job for job in jobs([DRIFTED_SEED], 2, wrong) if job.candidate is not None)
    played = room.play(job)
    assert isinstance(played.events[-1], RewardGraded)
    assert not played.events[-1].passed
    assert (played.proposals, room.events("RewriteProposed")) == ((), [])


def test_a_run_of_an_arm_never_proposes_whatever_its_job_says(room: Room) -> None:
    place = ArmRun(evaluation="eval-1", benchmark="marketplace-1", arm="champion", repeat=0, is_sealed=True)
    for job in jobs([DRIFTED_SEED, SEALED_SEED]):
        assert job.learns
        played = room.play(replace(job, arm=place))
        assert isinstance(played.events[-1], RewardGraded)
        assert not played.events[-1].passed
    assert room.events("RewriteProposed") == []


def test_a_run_that_a_crash_left_started_ends_once(room: Room) -> None:
    job = jobs([DRIFTED_SEED])[0]
    event, plan = start_facts(job)
    room.blobs.put([plan])
    room.store.append([Append(f"run/{job.run}", (event,), "runner", key=f"start:{job.run}")])
    room.play(job)
    counted = Counter(room.types(job.run))
    assert (counted["RunStarted"], counted["RunFinished"], counted["RewardGraded"]) == (1, 1, 1)


def test_recording_the_same_job_again_changes_nothing(room: Room) -> None:
    job = jobs([DRIFTED_SEED])[0]
    room.play(job)
    before = list(room.store.read_stored())
    room.play(job)
    assert list(room.store.read_stored()) == before


def test_the_same_fix_found_twice_is_one_rewrite(room: Room) -> None:
    for job in jobs([DRIFTED_SEED, DRIFTED_SEED + 1 + (drift_family(DRIFTED_SEED + 1) is CANONICAL)]):
        room.play(job)
    proposals = Counter(event.rewrite for event in room.events("RewriteProposed"))
    assert proposals[FIX.piece] == 1
    assert set(views(room.store).find(REWRITES)) == set(proposals)


def test_what_a_withdrawn_run_proposed_is_proposed_again_by_a_later_sweep_and_once_by_each(room: Room) -> None:
    first, second, third = (in_sweep(jobs([DRIFTED_SEED])[0], name) for name in ("s1", "s2", "s3"))
    room.play(first)
    room.play(replace(second, known=frozenset(views(room.store).find(REWRITES))))
    assert views(room.store).find(REWRITES)[FIX.piece].proposed_by == first.run
    withdraw_runs(room.store, [first.run], "its data was bad", "test")
    assert FIX.piece not in views(room.store).find(REWRITES)
    room.play(third)
    assert views(room.store).find(REWRITES)[FIX.piece].proposed_by == third.run
    before = list(room.store.read_stored())
    room.play(third)
    assert list(room.store.read_stored()) == before


def in_sweep(job: Job, name: str) -> Job:
    """A job of the same task and seed in a sweep of this name."""
    renamed = {key: getattr(job.spec, key).replace("s1__", f"{name}__") for key in ("spec_id", "group_id")}
    return replace(job, spec=job.spec.model_copy(update={"sweep": name, **renamed}))


def test_a_site_that_is_down_makes_a_missing_run_after_its_tries_and_no_reward() -> None:
    asked: list[str] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        raise httpx2.ConnectError("connection refused")

    client = EnvClient("http://127.0.0.1:9", "token", transport=httpx2.MockTransport(refuse), pause=lambda _: None)
    room = Room(client)
    job = jobs([CANONICAL_SEED])[0]
    room.play(job)
    assert room.types(job.run) == ["RunStarted", "RunMissing"]
    assert len(asked) == TRIES * 4
    missing = room.events("RunMissing")[0]
    assert (missing.reason, missing.group) == ("environment_down", job.spec.group_id)
    run = views(room.store).get(RUNS, job.run)
    assert run is not None
    assert (run.status, run.is_ended) == ("missing", True)
    assert views(room.store).find(REWARDS) == {}


class Keeping(EnvClient):
    """A client whose site answers a close with an error that names the instance."""

    def close(self, instance: Instance | str) -> None:
        super().close(instance)
        url = f"{self.admin_url}/{instance_id(instance)}?token=hush"
        raise EnvironmentDown(url=url, operation="a close", actual="503", timeout_s=1)


def test_an_instance_that_could_not_be_closed_is_logged_without_its_secrets_and_counted(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    before, job = UNCLOSED.number, jobs([CANONICAL_SEED])[0]
    with Keeping(site.admin_url, site.admin_token) as client:
        room = Room(client)
        assert room.play(job).stands
    assert room.types(job.run)[-1] == "RewardGraded"
    assert UNCLOSED.number == before + 1
    (record,) = caplog.records
    assert (record.levelname, "its site may keep it" in record.message) == ("WARNING", True)
    assert re.search(r"hush|[0-9a-f]{32}", record.message) is None


def test_a_site_that_comes_back_within_the_tries_has_its_run(site: Site, client: EnvClient) -> None:
    failures = iter([True, True])

    def busy_at_first(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/reset") and next(failures, False):
            return httpx2.Response(503, text="busy")
        return relay.send(request)

    with httpx2.Client(trust_env=False) as relay:
        flaky = EnvClient(site.admin_url, site.admin_token, transport=httpx2.MockTransport(busy_at_first))
        room = Room(flaky)
        job = jobs([CANONICAL_SEED])[0]
        room.play(job)
    assert room.types(job.run)[-1] == "RewardGraded"
    assert Counter(room.types(job.run))["InstanceReset"] == 1


def test_a_site_that_refuses_or_breaks_the_contract_says_so(site: Site) -> None:
    with EnvClient(site.admin_url, "not the token of this site") as refused:
        room = Room(refused)
        room.play(jobs([CANONICAL_SEED])[0])
    assert [event.reason for event in room.events("RunMissing")] == ["environment_refused"]
    broken = EnvClient(
        "http://site.test", "token", transport=httpx2.MockTransport(lambda _: httpx2.Response(200, text="<p>hello</p>"))
    )
    room = Room(broken)
    room.play(jobs([CANONICAL_SEED])[0])
    assert [event.reason for event in room.events("RunMissing")] == ["contract_broken"]


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(502, text="bad gateway"),
        httpx2.Response(302, headers={"location": "https://ann:secret@login.test/in?token=hush"}),
        httpx2.Response(200, text="<p>hello</p>", headers={"content-type": "text/html"}),
    ],
)
def test_no_event_holds_what_an_address_lets_anyone_in_by(answer: httpx2.Response) -> None:
    address = "http://ann:secret@site.test/admin?token=hush"
    room = Room(EnvClient(address, "token", transport=httpx2.MockTransport(lambda _: answer)))
    job = jobs([CANONICAL_SEED])[0]
    room.play(job)
    (missing,) = room.events("RunMissing")
    assert "http://site.test/admin" in missing.detail
    assert not any(word in missing.detail for word in ("ann", "secret", "token", "hush"))


def test_no_event_holds_the_secret_path_of_an_instance() -> None:
    with a_site({"/boats": (503, "busy")}) as client:
        (missing,) = play(jobs([1])[0], Means(client, BOOK, RULE, stopwatch)).events
    assert isinstance(missing, RunMissing)
    assert re.search(r"at http://127\.0\.0\.1:\d+/i/…/ does not answer GET", missing.detail)


def test_a_site_killed_in_the_middle_of_a_sweep_loses_no_run() -> None:
    with local_site("marketplace") as doomed, patient(doomed) as client:
        room = Room(client)
        todo = jobs(range(10), 2)
        assert doomed.pid is not None
        for number, _ in enumerate(dispatched(todo, room.play, 4).outcomes()):
            if number == 9:
                os.kill(doomed.pid, signal.SIGKILL)
        seen = views(room.store)
        runs, rewards = seen.find(RUNS), seen.find(REWARDS)
    assert set(runs) == {job.run for job in todo}
    assert all(run.is_ended for run in runs.values())
    lost = {key for key, run in runs.items() if run.status == "missing"}
    assert set(rewards) == set(runs) - lost
    assert 10 <= len(rewards) < len(todo)
    assert len(lost) >= len(todo) - 10 - 3 * 4
    ends = Counter(event.run for kind in ("RunFinished", "RunMissing") for event in room.events(kind))
    assert set(ends.values()) == {1}


def test_sixteen_at_a_time_twice_and_one_by_one_are_the_same(client: EnvClient) -> None:
    todo = jobs(range(12), 2, FIX)

    def all_of(max_parallel: int) -> dict[str, object]:
        room = Room(client)
        ended = dispatched(todo, room.play, max_parallel).results()
        return {each.call.work.run: outcome(each.result) for each in ended if each.result is not None}

    first = all_of(16)
    assert len(first) == len(todo) == 48
    assert all_of(16) == first
    assert all_of(1) == first


def test_an_error_takes_nothing_from_the_other_runs(room: Room) -> None:
    todo = jobs(range(4))

    def work(job: Job) -> Played:
        if job is todo[2]:
            raise RuntimeError("disk full")
        return room.play(job)

    ended: tuple[Outcome[Job, Played], ...] = dispatched(todo, work, 2).results()
    assert [each.ending for each in ended].count("failed") == 1
    assert str(ended[2].error) == "disk full"
    runs = views(room.store).find(RUNS)
    assert set(runs) == {job.run for job in todo} - {todo[2].run}
    assert all(run.is_ended for run in runs.values())


def test_a_run_that_is_given_up_is_missing_and_what_it_says_later_is_not_recorded(room: Room) -> None:
    job = jobs([DRIFTED_SEED])[0]
    assert abandon(job, room.store, room.blobs, "plan", "it took longer than 1 s")
    late = room.play(job)
    assert (late.stands, late.proposals, late.profile) == (False, (), None)
    assert room.types(job.run) == ["RunStarted", "RunMissing"]
    assert room.events("RewriteProposed") == []
    assert [(each.reason, each.detail) for each in room.events("RunMissing")] == [
        ("platform_error", "it took longer than 1 s")
    ]


class Overtaken(MemoryStore):
    """A room's store, in whose log a run is given up at the moment at which its end is appended."""

    def __init__(self, room: Room, job: Job) -> None:
        self.__dict__ = room.store.__dict__
        self.give_up: Callable[[], object] = lambda: abandon(
            job, room.store, room.blobs, "plan", "it took longer than 1 s"
        )

    def append(self, requests: Sequence[Append]) -> Sequence[Acceptance | Refusal]:
        self._meanwhile(requests)
        return super().append(requests)

    def append_together(self, requests: Sequence[Append]) -> Sequence[Acceptance] | Rejected:
        self._meanwhile(requests)
        return super().append_together(requests)

    def _meanwhile(self, requests: Sequence[Append]) -> None:
        if any(isinstance(event, RunFinished) for request in requests for event in request.events):
            assert self.give_up() is not None


def test_a_run_that_is_given_up_at_the_moment_of_its_end_proposes_nothing(room: Room) -> None:
    job = jobs([DRIFTED_SEED])[0]
    late = rollout(job, Overtaken(room, job), room.blobs, Means(room.client, BOOK, RULE, stopwatch))
    assert (late.stands, late.proposals) == (False, ())
    assert room.types(job.run) == ["RunStarted", "RunMissing"]
    assert room.events("RewriteProposed") == []


def test_a_run_ends_without_the_proposal_that_another_made_meanwhile_and_with_its_other_ones(room: Room) -> None:
    first, second = jobs([DRIFTED_SEED], siblings=2)[:2]
    alone = Room(room.client)
    alone.play(first)
    found = {each.rewrite: each for each in alone.events("RewriteProposed")}
    assert len(found) > 1
    others = found[FIX.piece].model_copy(update={"run": second.run})
    key = f"propose:{FIX.piece}:{first.spec.sweep}"
    room.store.append([Append(f"rewrite/{FIX.piece}", (others,), "runner", key=key)])
    assert room.play(first).stands
    assert "RewardGraded" in room.types(first.run)
    assert Counter(each.rewrite for each in room.events("RewriteProposed")) == Counter(found.keys())


def test_a_run_that_ended_a_moment_before_is_not_given_up(room: Room) -> None:
    job = jobs([CANONICAL_SEED])[0]
    room.play(job)
    before = room.types(job.run)
    assert not abandon(job, room.store, room.blobs, "plan", "it took longer than 1 s")
    assert room.types(job.run) == before


# A site of the test's own: what ours never does ----------------------------------------------------------------------

ENDPOINTS: dict[str, object] = {
    "/__env__/mutations": {"mutations": []},
    "/__env__/state": {"seed": 1, "counts": {}, "fingerprint": "sha256:" + "a" * 64},
    "/__env__/close": {"ok": True},
}


@contextmanager
def a_site(pages: dict[str, tuple[int, str]]) -> Iterator[EnvClient]:
    """A site over HTTP whose pages answer with these statuses and bodies (a redirect's body is where it leads)."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._answer()

        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/__env__/oracle":
                task = self.path.partition("task_id=")[2]
                facts = {"task_id": task, "passed": False, "score": 0, "reasons": [], "diff": {}}
                self._send(200, json.dumps(facts))
            elif path == "/__env__/reset":
                self._send(200, json.dumps({"seed": 1, "instance": "abc", "url": f"http://127.0.0.1:{port}/i/abc/"}))
            elif path in ENDPOINTS:
                self._send(200, json.dumps(ENDPOINTS[path]))
            else:
                self._send(*pages.get(path.removeprefix("/i/abc"), (404, "<p>Page not found</p>")))

        def _send(self, status: int, body: str) -> None:
            self.send_response(status)
            if status == 302:
                self.send_header("location", body)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with EnvClient(f"http://127.0.0.1:{port}", "token", pause=lambda _: None) as client:
                yield client
        finally:
            server.shutdown()
            thread.join()


def test_a_graded_run_keeps_its_grade_where_recovery_meets_a_site_that_is_down() -> None:
    with a_site({"/": (503, "busy")}) as client:
        played = play(jobs([1])[0], Means(client, BOOK, RULE, stopwatch))
    *run, halt = played.events
    assert [event.type for event in run] == ["InstanceReset", "StepTaken", "RunFinished", "RewardGraded"]
    assert isinstance(halt, RecoveryDecided)
    assert (halt.mode, halt.reason) == ("halt", "site_failed")
    assert played.proposals == ()


def test_a_page_that_is_down_makes_the_run_missing_and_a_page_that_fails_does_not() -> None:
    with a_site({"/boats": (503, "busy")}) as client:
        down = play(jobs([1])[0], Means(client, BOOK, RULE, stopwatch))
    with a_site({"/boats": (500, "oops")}) as client:
        failed = play(jobs([1])[0], Means(client, BOOK, RULE, stopwatch))
    assert [event.type for event in down.events] == ["RunMissing"]
    assert any(isinstance(event, RewardGraded) for event in failed.events)
    assert [event.outcome for event in failed.events if event.type == "StepTaken"] == ["server_error"]


def test_a_site_that_sends_its_agent_away_broke_the_contract() -> None:
    with a_site({"/boats": (302, "/i/other/boats")}) as client:
        played = play(jobs([1])[0], Means(client, BOOK, RULE, stopwatch))
    assert isinstance(played.events[-1], RunMissing)
    assert played.events[-1].reason == "contract_broken"


def test_what_a_start_says_of_a_run_is_what_it_was_asked(room: Room) -> None:
    job = jobs([CANONICAL_SEED])[1]
    event, plan = start_facts(job)
    assert isinstance(event, RunStarted)
    assert event.plan == plan.digest
    assert (event.run, event.artifact, event.arm, event.applied) == (
        job.spec.spec_id,
        forget_everything("base")[0],
        None,
        (),
    )
    assert event.task_spec.instruction == job.template.instruction
    assert event.task_spec.success_conditions == (f"oracle:{job.template.oracle_task_id}",)
    played = room.play(job)
    assert isinstance(played.events[-2], RunFinished)
    assert played.events[-2].usage.actions == len(job.template.plan_steps)
