"""Jobs played and recorded over a real database and a real site: what is kept is of the run that stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Event
from threading import enumerate as enumerate_threads

import pytest
from sqlalchemy import text

from agents.envs.client import EnvClient
from agents.envs.contract import Instance
from agents.envs.provider import local_site
from agents.executors.executor import Assignment, Execution, Watch, unwatched
from agents.rollouts.errors import StartedOtherwise
from agents.rollouts.play import PLAN, Job, Means, started
from agents.rollouts.record import abandon, stopwatch
from agents.rollouts.state_keys import independent, session
from api.decide import Course
from api.errors import SessionNotKept
from api.house import House
from api.playing import give_up, play_jobs, play_one
from api.sweeping import first_facts
from eventlog.events import RunMissing, RunStarted, SeedsRule
from eventlog.store import Append
from projections.runs import PLANLESS
from tests.golden.make import Quiet
from tests.integration.test_rollouts import FIX, jobs
from tests.unit.test_agent_samples import BOOK

ALEX = session("alex")


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


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
    start, plan = started(job, "browser")
    empty_house.blobs.put([plan])
    empty_house.store.append([Append(f"run/{job.run}", (start,), "runner", key=f"start:{job.run}")])
    with pytest.raises(StartedOtherwise, match="another executor"):
        play_one(empty_house, means(client), job, independent(job.run))
    assert missing(empty_house) == []
    first_facts(empty_house)
    play_jobs(empty_house, client, "sweep", [job], Course(), Quiet())
    assert [(event.run, event.reason) for event in missing(empty_house)] == [(job.run, "platform_error")]


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

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = unwatched) -> Execution:
        return Execution((), "halted")


@pytest.mark.parametrize("name", sorted(PLANLESS))
def test_who_walks_no_plan_plays_no_session(empty_house: House, client: EnvClient, name: str) -> None:
    executor = Named(name)
    with pytest.raises(SessionNotKept, match=f"'alex'.*{name}"):
        play_jobs(empty_house, client, "sweep", [*jobs([3])[:1], of_alex(0)], Course(), Quiet(), executor)
    with pytest.raises(SessionNotKept, match=f"'alex'.*{name}"):
        play_one(empty_house, replace(means(client), executor=executor), of_alex(0), ALEX)
    assert empty_house.store.counts() == {}


@pytest.mark.parametrize("name", sorted({PLAN.name, *PLANLESS}))
def test_who_walks_no_plan_carries_nothing_of_memory(empty_house: House, client: EnvClient, name: str) -> None:
    (job,) = jobs([0])[:1]
    job = replace(job, pieces=(FIX,))
    play_one(empty_house, replace(means(client), executor=Named(name)), job, independent(job.run))
    give_up(empty_house, other := replace(jobs([1])[0], pieces=(FIX,)), Named(name), "it is not waited for")
    for each in (job, other):
        (start,) = empty_house.store.read(stream=f"run/{each.run}", types=["RunStarted"])
        assert isinstance(start.event, RunStarted)
        assert [applied.piece for applied in start.event.applied] == ([] if name in PLANLESS else [FIX.piece])


@dataclass(frozen=True)
class Slow:
    """The plan executor, which waits before it begins."""

    release: Event
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = unwatched) -> Execution:
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
