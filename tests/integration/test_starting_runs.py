"""A run's start is recorded beside the reset of its instance, and stands before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Event

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Instance
from agents.envs.provider import Site
from agents.executors.executor import Assignment, Execution, Watch, no_verification
from agents.rollouts.errors import StartedOtherwise
from agents.rollouts.play import PLAN, Means
from agents.rollouts.record import rollout, stopwatch
from eventlog.blobs import MemoryBlobs
from eventlog.errors import LogUnavailable
from eventlog.events import RunStarted, SeedsRule
from eventlog.memory import MemoryStore
from eventlog.store import Append, EventStore, Outcome
from tests.integration.test_rollouts import jobs
from tests.sites import SharedSite
from tests.unit.test_agent_samples import BOOK


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


class Telling(EnvClient):
    """A client that tells of each reset, and counts the instances it closed."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.admin_url, site.admin_token)
        self.was_reset = Event()
        self.closed = 0

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        made = super().reset(seed, instance=instance, repeat=repeat)
        self.was_reset.set()
        return made

    def close(self, instance: Instance | str) -> None:
        super().close(instance)
        self.closed += 1


class Log(MemoryStore):
    """A log that takes a start only after `gate` was opened, or not at all."""

    def __init__(self, gate: Event, *, takes: bool = True) -> None:
        super().__init__(lambda: datetime.now(UTC))
        self.gate = gate
        self.takes = takes

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        if isinstance(requests[0].events[0], RunStarted):
            assert self.gate.wait(60)
            if not self.takes:
                raise LogUnavailable(actual="it is gone")
        return super().append(requests)


@dataclass(frozen=True)
class Looking:
    """The plan executor; it notes what the log holds of runs before its first step."""

    store: EventStore
    seen: list[list[str]]
    name: str = PLAN.name
    offers_logprobs: bool = PLAN.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        self.seen.append([recorded.event.type for recorded in self.store.read()])
        return PLAN.execute(assignment, instance, watch)


def test_a_start_is_recorded_while_the_instance_is_made_and_stands_before_the_first_step(site: Site) -> None:
    seen: list[list[str]] = []
    with Telling(site) as client:
        log = Log(client.was_reset)
        played = rollout(jobs([0])[0], log, MemoryBlobs(), means(client, Looking(log, seen)))
    assert (played.stands, seen) == (True, [["RunStarted"]])


def test_a_run_whose_start_is_not_recorded_takes_no_step_and_leaves_nothing(site: Site) -> None:
    seen: list[list[str]] = []
    with Telling(site) as client:
        log = Log(client.was_reset, takes=False)
        with pytest.raises(LogUnavailable, match="it is gone"):
            rollout(jobs([0])[0], log, MemoryBlobs(), means(client, Looking(log, seen)))
        assert client.closed == 1
    assert (list(log.read()), seen) == ([], [])


def test_a_run_that_was_started_otherwise_takes_no_step_and_its_instance_is_closed(site: Site) -> None:
    seen: list[list[str]] = []
    with Telling(site) as client:
        client.was_reset.set()
        log = Log(client.was_reset)
        other = Looking(log, [], name="browser")
        rollout(jobs([0])[0], log, MemoryBlobs(), means(client, other))
        before, closed = list(log.read_stored()), client.closed
        with pytest.raises(StartedOtherwise):
            rollout(jobs([0])[0], log, MemoryBlobs(), means(client, Looking(log, seen)))
        assert client.closed == closed + 1
    assert (list(log.read_stored()), seen) == (before, [])


def test_a_start_that_is_not_recorded_is_told_where_the_site_is_gone_too(site: Site) -> None:
    gate = Event()
    gate.set()
    log = Log(gate, takes=False)
    with (
        EnvClient("http://127.0.0.1:9", "token", pause=lambda _: None) as nowhere,
        pytest.raises(LogUnavailable, match="it is gone"),
    ):
        rollout(jobs([0])[0], log, MemoryBlobs(), replace(means(nowhere, Looking(log, [])), executor=PLAN))
    assert list(log.read()) == []


def means(client: EnvClient, executor: Looking) -> Means:
    """What runs are played with here."""
    return Means(client, BOOK, SeedsRule(), stopwatch, executor)
