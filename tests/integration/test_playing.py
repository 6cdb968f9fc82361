"""Jobs played and recorded over a real database and a real site: what is kept is of the run that stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from threading import Event
from threading import enumerate as enumerate_threads

import pytest
from sqlalchemy import text

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.executors.actions import Wording
from agents.executors.demonstration import Demonstrator
from agents.executors.executor import Assignment, Execution, Executor, Watch, no_verification
from agents.executors.policy import PolicyExecutor
from agents.learning.occasions import AnyPiece, OccasionPiece
from agents.models.scripted import Scripted
from agents.rollouts.dispatching.state_keys import independent, session
from agents.rollouts.errors import StartedOtherwise
from agents.rollouts.play import PLAN, Job, Means, start_facts
from agents.rollouts.record import abandon, stopwatch
from agents.rollouts.sweep import SeedSweep
from api.cli.sweep_setup import SweepSetup, plan_now
from api.course import Course
from api.errors import SessionNotKept
from api.house import House
from api.sweeps.jobs import give_up, play_jobs, play_one
from api.sweeps.plan import first_facts, site_templates
from eventlog.blobs.conversations import get_messages
from eventlog.events import Applied, ModelCalled, Occasion, PreferTarget, RunMissing, RunStarted, SeedsRule
from eventlog.store import Append
from projections.runs import PLANLESS
from tests.golden.make import Quiet
from tests.integration.test_rollouts import FIX, jobs
from tests.unit.test_agent_samples import BOOK

ALEX = session("alex")


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


def means(client: EnvClient) -> Means:
    return Means(client, BOOK, SeedsRule(), stopwatch)


def of_alex(number: int, sweep: str = "s1") -> Job:
    """A job of the session of alex."""
    job = jobs(range(number + 1))[number]
    return replace(job, spec=job.spec.model_copy(update={"state_key": "alex", "sweep": sweep}))


def kept(house: House) -> dict[str, bytes | None]:
    """The profiles that are kept, by name."""
    with house.engine.connect() as connection:
        rows = connection.execute(text("SELECT name, body FROM profiles")).all()
    return {str(row.name): row.body for row in rows}


def missing(house: House) -> list[RunMissing]:
    found = (recorded.event for recorded in house.store.read(types=["RunMissing"]))
    return [event for event in found if isinstance(event, RunMissing)]


def test_a_run_that_was_given_up_hands_no_profile_in(empty_house: House, client: EnvClient) -> None:
    given_up, played = of_alex(0), of_alex(1)
    assert abandon(given_up, empty_house.store, empty_house.blobs, "plan", "it took longer than 1 s")
    assert not play_one(empty_house, means(client), given_up, ALEX).stands
    assert list(kept(empty_house).values()) == [None]
    assert play_one(empty_house, means(client), played, ALEX).stands
    assert [body is not None for body in kept(empty_house).values()] == [True]


def test_a_run_that_was_started_otherwise_is_missing_for_who_is_alone_on_the_site_and_for_nobody_else(
    empty_house: House, client: EnvClient
) -> None:
    (job,) = jobs([0])[:1]
    start, plan = start_facts(job, "browser")
    empty_house.blobs.put([plan])
    empty_house.store.append([Append(f"run/{job.run}", (start,), "runner", key=f"start:{job.run}")])
    with pytest.raises(StartedOtherwise, match="another executor"):
        play_one(empty_house, means(client), job, independent(job.run))
    assert missing(empty_house) == []
    first_facts(empty_house)
    play_jobs(empty_house, client, "sweep", [job], Course(), Quiet())
    assert [(event.run, event.reason) for event in missing(empty_house)] == [(job.run, "platform_error")]


def test_a_run_that_an_earlier_version_of_the_vocabulary_started_is_gone_on_with(
    empty_house: House, client: EnvClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs([0])[:1]
    start, plan = start_facts(job)
    empty_house.blobs.put([plan])
    with monkeypatch.context() as earlier:
        earlier.setattr(RunStarted, "schema_version", 1)
        empty_house.store.append([Append(f"run/{job.run}", (start,), "runner", key=f"start:{job.run}")])
    assert play_one(empty_house, means(client), job, independent(job.run)).stands
    assert [row.schema_version for row in empty_house.store.read_stored(types=["RunStarted"])] == [1]


def test_a_session_begins_fresh_under_another_sweeps_name(empty_house: House, client: EnvClient) -> None:
    play_one(empty_house, means(client), of_alex(0), ALEX)
    play_one(empty_house, means(client), of_alex(1), ALEX)
    assert len(kept(empty_house)) == 1
    play_one(empty_house, means(client), of_alex(2, sweep="s2"), ALEX)
    assert len(kept(empty_house)) == 2


@dataclass(frozen=True)
class Named:
    """An executor of this name, which takes no step."""

    name: str
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        return Execution((), "halted")


@pytest.mark.parametrize("name", sorted(PLANLESS))
def test_who_walks_no_plan_plays_no_session(empty_house: House, client: EnvClient, name: str) -> None:
    executor = Named(name)
    with pytest.raises(SessionNotKept, match=f"{name} .*'alex'"):
        play_jobs(empty_house, client, "sweep", [*jobs([3])[:1], of_alex(0)], Course(), Quiet(), executor)
    with pytest.raises(SessionNotKept, match=f"{name} .*'alex'"):
        play_one(empty_house, replace(means(client), executor=executor), of_alex(0), ALEX)
    assert empty_house.store.counts() == {}


@pytest.mark.parametrize("name", sorted({PLAN.name, *PLANLESS}))
def test_who_walks_no_plan_carries_no_change_of_a_plan(empty_house: House, client: EnvClient, name: str) -> None:
    (job,) = jobs([0])[:1]
    job = replace(job, pieces=(FIX,))
    play_one(empty_house, replace(means(client), executor=Named(name)), job, independent(job.run))
    give_up(empty_house, other := replace(jobs([1])[0], pieces=(FIX,)), Named(name), "it is not waited for")
    for each in (job, other):
        (start,) = empty_house.store.read(stream=f"run/{each.run}", types=["RunStarted"])
        assert isinstance(start.event, RunStarted)
        assert [applied.piece for applied in start.event.applied] == ([] if name in PLANLESS else [FIX.piece])


HINT = OccasionPiece(
    piece="hint-1",
    kind="hint",
    occasion=Occasion(environment="marketplace", type="click", intent="open the cheapest one", page=""),
    change=PreferTarget(label="Sea Ray"),
    text="To open the cheapest Sea Ray,\nsort by price first.",
    title="",
    wins=0,
    rank=500_000,
)
"""It shares words with the instruction of the task."""


def asked_with(house: House, client: EnvClient, executor: Executor, *held: AnyPiece) -> tuple[list[Applied], list[str]]:
    """What a run's start says was applied, and what its model was told first."""
    (job,) = jobs([0])[:1]
    play_one(house, replace(means(client), executor=executor), replace(job, pieces=held), independent(job.run))
    events = [recorded.event for recorded in house.store.read(stream=f"run/{job.run}")]
    call = next(event for event in events if isinstance(event, ModelCalled))
    told = [str(message["parts"]) for message in get_messages(house.blobs, call.messages)]
    return [each for event in events if isinstance(event, RunStarted) for each in event.applied], told


def finishing(wording: Wording = "full") -> PolicyExecutor:
    """A policy that finishes at once."""
    done = json.dumps({"why": "done", "action": "finish", "target": "", "value": ""})
    return PolicyExecutor(Scripted([done]), wording=wording)


def test_a_policy_is_told_what_helped_before_and_its_run_says_so(empty_house: House, client: EnvClient) -> None:
    applied, told = asked_with(empty_house, client, finishing(), FIX, HINT)
    assert applied == [Applied(piece="hint-1", kind="hint", step=0)]
    assert "- “To open the cheapest Sea Ray, sort by price first.”\\n" in told[1]


def test_who_demonstrates_is_told_nothing_of_it(empty_house: House, client: EnvClient) -> None:
    _, told = asked_with(empty_house, client, Demonstrator(), HINT)
    assert not any("helped before" in part for part in told)


def test_who_is_told_little_is_told_what_fits_into_less(empty_house: House, client: EnvClient) -> None:
    long = replace(HINT, piece="hint-2", text="To open the cheapest Sea Ray, " + "look " * 60)
    short = replace(HINT, piece="hint-3", rank=0)
    assert len(asked_with(empty_house, client, finishing("brief"), long, short)[0]) == 1


def test_what_models_are_told_is_tried_in_a_policys_runs_as_changes_are_in_those_of_plans(
    empty_house: House, client: EnvClient
) -> None:
    first_facts(empty_house)
    found = site_templates(client)[:1]
    for executor in (PLAN, finishing()):
        ready = SweepSetup(empty_house, "marketplace", client, executor, ())
        generator = SeedSweep(f"of-{executor.name}", found, [0], 2)
        (planned,) = plan_now(ready, generator, 7, learn=True, queued=False, suite=None)
        assert (planned.learns, planned.trials is not None) == (True, True)


@dataclass(frozen=True)
class Slow:
    """The plan executor, which waits before it begins."""

    release: Event
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        assert self.release.wait(60)
        return PLAN.execute(assignment, instance, watch)


def test_a_run_past_its_time_is_missing_and_what_it_says_later_is_not_recorded(
    empty_house: House, client: EnvClient
) -> None:
    first_facts(empty_house)
    (job,), release = jobs([0])[:1], Event()
    play_jobs(empty_house, client, "sweep", [job], Course(timeout_s=0.5), Quiet(), Slow(release))
    assert [event.detail for event in missing(empty_house)] == ["it took longer than 0.5 s"]
    release.set()
    for thread in enumerate_threads():
        if thread.name.startswith("call "):
            thread.join()
    recorded = empty_house.store.read(stream=f"run/{job.run}")
    assert [each.event.type for each in recorded] == ["RunStarted", "RunMissing"]
