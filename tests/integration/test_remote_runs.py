"""`--executor remote`: a second `flywheel serve` plays a sweep and both arms of the gate, on instances of the first.

Cancelling, killing and errors are looked at from both logs: no run counts twice, and no lost run counts as failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from agents.envs.clients.client import EnvClient
from agents.envs.provider import Site
from agents.executors.executor import Assignment
from agents.executors.remote.errors import RemoteFailure, RemoteRefused, RemoteRunLate, RemoteRunLost, RemoteUnreachable
from agents.executors.remote.executor import RemotePolicies, RemoteTerms
from agents.executors.remote.flywheel import RemoteFlywheel
from agents.models.wire import Patience
from agents.rollouts.dispatching.durable import Terms as DispatchTerms
from agents.rollouts.dispatching.lent_instances import LentInstance, find_lent, keep_lent, return_lent
from agents.rollouts.dispatching.profiles import TableKeeper
from agents.rollouts.dispatching.queue import JobTicket
from api.cli.main import run_command
from api.errors import RunSealed
from api.house import House
from api.queries.runs import refuse_hidden_run
from api.sweeps.plan import first_facts
from api.sweeps.remote import log_name
from api.sweeps.worker import SiteRunner
from api.tokens import issue
from eventlog.archive.errors import ArchiveMissing
from eventlog.database import open_engine
from eventlog.events import ModelCalled, RunFinished, RunMissing, RunStarted
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from tests.admitted import admitted
from tests.conftest import Database, house_on
from tests.model_server import Asked, ModelServer, model_server
from tests.remote_flywheel import ENOUGH_S, RemoteSide, remote_side, unread_checkpoint
from tests.sites import SharedSite
from trainer.checkpoint import Checkpoint

from .test_challenger_references import record
from .test_policy_rollouts import action, rule

PHONE = "marketplace.phone_reveal"
SWEEP = [sys.executable, "-c", "from api.cli.main import main; main()", "rollout", "sweep", "marketplace"]
HASTE = Patience(timeout_s=60, tries=2, first_wait_s=0.01)


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ModelServer]:
    """A model server that stands in for vLLM: the base gives up, every adapter finds the phone number."""

    def answer(asked: Asked) -> str:
        return rule(asked) if "+" in asked.body["model"] else action("finish")

    with model_server(answer) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def saved(store: Path) -> Checkpoint:
    return unread_checkpoint(store)


@pytest.fixture
def other(
    clone: Callable[[str], Database], site: Site, endpoint: ModelServer, saved: Checkpoint, store: Path
) -> Iterator[RemoteSide]:
    """The second Flywheel, which knows the checkpoint."""
    database = clone("empty")
    engine = open_engine(database.app_url)
    house = house_on(engine, database)
    record(house, saved)
    with remote_side(house, database, site, endpoint, store) as running:
        yield running
    engine.dispose()


@pytest.fixture
def own(empty_house: House, empty_database: Database, site: Site, monkeypatch: pytest.MonkeyPatch) -> House:
    """The first Flywheel, whose commands read these settings. It has no model of its own."""
    admitted(empty_house.store, "marketplace")
    first_facts(empty_house)
    for name, value in {
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_OWNER_URL": empty_database.owner_url,
        "FLYWHEEL_KEYS": str(empty_database.keys),
        "FLYWHEEL_ENV_ADMIN_TOKEN": site.admin_token,
    }.items():
        monkeypatch.setenv(name, value)
    return empty_house


@pytest.fixture
def where(site: Site) -> tuple[str, ...]:
    return ("--url", site.url, "--admin-url", site.admin_url, "--executor", "remote")


@pytest.fixture
def joined(own: House, other: RemoteSide, monkeypatch: pytest.MonkeyPatch) -> House:
    """The first Flywheel with the address and a token of the second."""
    for name, value in other.settings().items():
        monkeypatch.setenv(name, value)
    return own


def events(house: House, *types: str) -> list[Any]:
    return [each.event for each in house.store.read(types=types)]


def ends(house: House) -> Counter[str]:
    return Counter(each.run for each in events(house, "RunFinished", "RunMissing"))


def wait_until(condition: Callable[[], object], limit_s: float = ENOUGH_S) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_another_flywheel_plays_a_sweep_and_both_arms_by_their_weights_and_the_grade_is_ours(
    joined: House, other: RemoteSide, saved: Checkpoint, where: tuple[str, ...], store: Path, capsys: Any
) -> None:
    record(joined, saved)
    with other.working():
        swept = [
            "rollout",
            "sweep",
            "marketplace",
            "--sweep",
            "s1",
            "--task",
            PHONE,
            "--seeds",
            "1-2",
            "--siblings",
            "1",
            *where,
        ]
        assert run_command(swept) == 0
        sweep = {each.run: each for each in events(joined, "RunFinished")}
        assert [each.status for each in sweep.values()] == ["completed"] * 2
        frozen = ("benchmark", "freeze", "b", "--task", PHONE, "--sealed", "2", "--visible", "0", "--challengers", "2")
        assert run_command([*frozen, "--executor", "remote"]) == 0
        capsys.readouterr()
        place = f"{store}/{saved.digest}/peft"
        judged = ["gate", "run", "--benchmark", "b", "--lora-adapter", place, "--test", "bootstrap", *where]
        code = run_command(judged)
        assert code in {0, 2}, capsys.readouterr().err
    started = {each.run: each for each in events(joined, "RunStarted")}
    arms = {run: each for run, each in started.items() if each.arm is not None}
    assert {(each.arm.arm, each.artifact.weights) for each in arms.values()} == {
        ("champion", "base"),
        ("challenger", saved.digest),
    }
    graded = {each.run: each.terms.score for each in events(joined, "RewardGraded")}
    passed = {(started[run].artifact.weights, graded[run] == 1_000_000) for run in arms}
    assert passed == {("base", False), (saved.digest, True)}
    calls = {each.run: each for each in events(joined, "ModelCalled")}
    assert {started[run].artifact.weights: each.model for run, each in calls.items()} == {
        "base": "m1-served",
        saved.digest: f"m1+{saved.digest[:12]}-served",
    }
    assert {each.executor for each in started.values()} == {"remote"}
    sealed = {each.run for each in other.events("RunTermsSet") if each.is_sealed}
    _same_in_both_logs(joined, other, sealed)
    _untold(other, sealed)
    assert len(sealed) == len(arms) > 0
    told = [each.run for each in other.events("RewardGraded")]
    assert len(told) == 2  # those of the sweep
    assert not sealed & set(told)
    kept = {each.run: other.house.blobs.get(each.end_state).body for each in other.events("RunFinished")}
    assert {kept[run] for run in sealed} == {b'{"kept": false}'}
    assert {each.fingerprint for each in other.events("RunFinished") if each.run in sealed} == {"0" * 64}
    known = {joined.blobs.get(each.end_state).body for each in events(joined, "RunFinished") if each.run in arms}
    assert len(known) > 1  # here it is known what they changed


def _untold(other: RemoteSide, sealed: set[str]) -> None:
    """Who may not ask for runs there learns of sealed ones that they ended, and nothing else."""
    reader = {"Authorization": f"Bearer {issue(other.house.store, 'reader', 'test', 'read')}"}
    run = min(sealed)
    with httpx2.Client(base_url=f"{other.url}/v1", headers=reader) as rest:
        row = rest.get(f"/runs/{run}").json()
        assert (row["run"]["status"], row["run"]["steps"], row["run"]["mutations"]) == ("ended", None, None)
        for logged in (row, rest.get(f"/predict/{run}/logs").json(), rest.get(f"/events?stream=run/{run}").json()):
            assert {each["type"] for each in logged["events"]} == {"RunStarted", "InstanceReset"}
        status = rest.get(f"/predict/{run}").json()
        assert (status["status"], status["reason"]) == ("ungraded", None)
    with pytest.raises(RunSealed, match="another Flywheel grades"):
        refuse_hidden_run(other.house.views(), run)


def _same_in_both_logs(house: House, other: RemoteSide, sealed: set[str]) -> None:
    """What the second played is what the first recorded: the same ends of instances, steps, calls and blobs.

    The second knows no ends of sealed runs.
    """
    arms = {each.run for each in events(house, "RunStarted") if each.arm is not None}
    both = []
    for log in (house.store, other.house.store):
        found = [each.event for each in log.read(types=["RunFinished", "StepTaken", "ModelCalled"])]
        finished = Counter(
            each.fingerprint for each in found if isinstance(each, RunFinished) and each.run not in sealed | arms
        )
        answers = Counter(each.completion for each in found if isinstance(each, ModelCalled))
        both.append((finished, answers, sum(each.type == "StepTaken" for each in found)))
    assert both[0] == both[1]
    assert sum(both[0][0].values()) > 0
    for call in events(house, "ModelCalled"):
        assert house.blobs.get(call.completion).body == other.house.blobs.get(call.completion).body
    assert not set(_lent_rows(other.house))


def _lent_rows(house: House) -> list[str]:
    with house.engine.connect() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT name FROM profiles")]


@pytest.fixture
def begin(joined: House, where: tuple[str, ...]) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start a sweep of one run as a process."""
    children: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        words = [*SWEEP, "--sweep", "s1", "--task", PHONE, "--seeds", "1", "--siblings", "1", *where]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(words, env=dict(os.environ), stdout=pipe, stderr=pipe, text=True))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_is_called_off_there_and_a_killed_one_when_it_goes_on_and_no_run_counts_twice(
    number: signal.Signals, joined: House, other: RemoteSide, begin: Callable[[], subprocess.Popen[str]]
) -> None:
    child = begin()  # nobody works there, so the run waits
    wait_until(lambda: other.events("RunRequested"))
    child.send_signal(number)
    child.communicate(timeout=ENOUGH_S)
    if number == signal.SIGINT:
        assert child.returncode == 130
        assert len(other.events("RunCancelled")) == 1
    else:
        assert other.events("RunCancelled") == []
    assert (len(events(joined, "RunStarted")), ends(joined)) == (1, {})
    again = begin()
    wait_until(lambda: len(other.events("RunRequested")) == 2)  # before a worker could play the former one
    with other.working():
        _, said = again.communicate(timeout=ENOUGH_S)
    assert again.returncode == 0, said
    assert len(other.events("RunCancelled")) == 1
    assert [*ends(joined).values()] == [1]
    assert (len(events(joined, "RunFinished")), len(events(joined, "RewardGraded"))) == (1, 1)
    assert (len(other.events("RunFinished")), len(other.events("RunMissing"))) == (1, 1)
    (first, second) = other.events("RunRequested")
    assert other.events("RunMissing")[0].run == first.run
    assert other.events("RunFinished")[0].run == second.run


@pytest.fixture
def playing(other: RemoteSide) -> Iterator[Callable[..., RemotePolicies]]:
    """The executor alone, with other terms than usual."""
    with ExitStack() as stack:

        def make(*, url: str = other.url, token: str = other.token, minutes: float = 15) -> RemotePolicies:
            flywheel = stack.enter_context(closing(RemoteFlywheel(url, SecretStr(token), HASTE)))
            return RemotePolicies(flywheel, RemoteTerms("store:", minutes, lambda: "here"))

        yield make


def assigned(run: str = "s1__a__seed1__s0", task: str = PHONE, environment: str = "marketplace") -> Assignment:
    return Assignment("find the number", (), 20, weights="base", run=run, environment=environment, task=task)


def test_what_the_other_flywheel_refuses_loses_or_never_plays_is_told_with_its_reason(
    playing: Callable[..., RemotePolicies], other: RemoteSide, marketplace: EnvClient
) -> None:
    instance = marketplace.reset(1)
    cases: list[tuple[RemotePolicies, Assignment, type[RemoteFailure], str]] = [
        (playing(url="http://127.0.0.1:9"), assigned(), RemoteUnreachable, "does not answer.*at try 2"),
        (playing(token="fw_" + "0" * 40), assigned(), RemoteRefused, "status 401"),
        (playing(), assigned(environment="elsewhere"), RemoteRefused, "env probe` admitted"),
        (playing(), assigned(task="nothing"), RemoteRefused, "status 422"),
        (playing(minutes=61), assigned(), RemoteRefused, "at most 60 minutes"),
        (
            playing(minutes=1 / 60),
            assigned(),
            RemoteRunLate,
            "is queued after \\d+ s.*flywheel worker --site marketplace",
        ),
    ]
    for executor, assignment, error, words in cases:
        with pytest.raises(error, match=f"(?s){words}"):
            executor.execute(assignment, instance)
    assert len(other.events("RunCancelled")) == 1  # the late one
    assert _lent_rows(other.house) == []
    marketplace.close(instance)
    gone = assigned(run="s1__b__seed1__s0")
    with other.working(), pytest.raises(RemoteRunLost, match="no instance"):
        playing().execute(gone, instance)
    assert [each.reason for each in other.events("RunMissing")][-1] in {"environment_down", "platform_error"}
    assert other.events("RewardGraded") == []


def test_a_run_whose_instance_is_not_kept_is_parked_and_never_played_on_another_one(
    playing: Callable[..., RemotePolicies], other: RemoteSide, marketplace: EnvClient
) -> None:
    instance = marketplace.reset(1)
    asked = playing()._request(assigned(), instance)
    keeper = TableKeeper(other.house.engine)
    (terms,) = other.events("RunTermsSet")
    kept = find_lent(keeper, asked.run, terms.instance)
    assert kept is not None
    assert kept.instance == instance.instance
    logged = "".join(each.event.model_dump_json() for each in other.house.store.read())
    assert instance.instance not in logged
    return_lent(keeper, asked.run, terms.instance)
    with other.working(), pytest.raises(RemoteRunLost, match=r"(?s)parked.*not kept any more"):
        playing()._follow(playing().flywheel.status_of(asked.run), assigned())
    assert other.events("RunFinished") == []
    marketplace.close(instance)


def test_a_run_that_a_worker_gives_up_leaves_neither_its_instance_nor_answers(
    playing: Callable[..., RemotePolicies], other: RemoteSide, marketplace: EnvClient
) -> None:
    instance = marketplace.reset(1)
    asked = playing()._request(assigned(), instance)
    keeper = TableKeeper(other.house.engine)
    ticket = JobTicket(asked.run.partition("__")[0], asked.run)
    keeper.hand_out(ticket.state.resume)
    assert len(_lent_rows(other.house)) == 2
    terms = DispatchTerms(timeout_s=1)
    runner = SiteRunner(other.house, marketplace, "marketplace", terms, lost=lambda error: pytest.fail(str(error)))
    runner.give_up(ticket)
    assert [each.run for each in other.events("RunMissing")] == [asked.run]
    assert _lent_rows(other.house) == []
    marketplace.close(instance)


def test_requests_that_race_for_a_name_keep_an_instance_each_and_the_loser_forgets_its_own(house: House) -> None:
    keeper = TableKeeper(house.engine)
    won, lost = LentInstance(instance="i-1", repeat=0), LentInstance(instance="i-2", repeat=0)
    for each in (won, lost):
        keep_lent(keeper, "s__a__seed1__s0", each)
    return_lent(keeper, "s__a__seed1__s0", lost.digest)
    assert find_lent(keeper, "s__a__seed1__s0", won.digest) == won
    assert find_lent(keeper, "s__a__seed1__s0", lost.digest) is None


def test_a_log_keeps_its_name_on_another_machine_and_at_another_address(house: House, empty_house: House) -> None:
    first_facts(empty_house)
    url = house.engine.url.update_query_dict({"application_name": "elsewhere"})
    elsewhere = open_engine(url.render_as_string(hide_password=False))
    named = log_name(PostgresStore(elsewhere))
    elsewhere.dispose()
    assert named == log_name(house.store) == next(house.store.read_stored(upto=Position(1))).chain.hex()
    assert named != log_name(empty_house.store)


def test_a_log_whose_first_event_is_in_a_lost_archive_is_refused_before_a_run_begins(
    own: House, where: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(_store: PostgresStore, **_asked: Any) -> Any:
        raise ArchiveMissing(first=1, last=9, folder="/gone", actual="which is missing")

    monkeypatch.setenv("FLYWHEEL_REMOTE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("FLYWHEEL_REMOTE_TOKEN", "fw_x")
    monkeypatch.setattr(PostgresStore, "read_stored", lost)
    words = ["rollout", "sweep", "marketplace", "--sweep", "s1", "--task", PHONE, "--seeds", "1", "--siblings", "1"]
    assert run_command([*words, *where]) == 1
    assert "FLYWHEEL_ARCHIVE" in capsys.readouterr().err
    assert events(own, "SweepPlanned", "RunStarted") == []


def test_a_dead_flywheel_makes_the_runs_missing_and_the_command_says_why(
    own: House, where: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "rollout",
        "sweep",
        "marketplace",
        "--sweep",
        "s1",
        "--task",
        PHONE,
        "--seeds",
        "1",
        "--siblings",
        "1",
        *where,
    ]
    assert run_command(words) == 1
    assert "FLYWHEEL_REMOTE_URL is not set" in capsys.readouterr().err
    monkeypatch.setenv("FLYWHEEL_REMOTE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("FLYWHEEL_REMOTE_TOKEN", "fw_x")
    monkeypatch.setattr("agents.executors.remote.flywheel.Patience", lambda: HASTE)
    assert run_command(words) != 0
    (missing,) = events(own, "RunMissing")
    assert isinstance(missing, RunMissing)
    assert (missing.reason, "does not answer" in missing.detail) == ("model_down", True)
    assert "does not answer" in " ".join(capsys.readouterr().err.split())
    assert isinstance(events(own, "RunStarted")[0], RunStarted)
