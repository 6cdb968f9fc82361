"""What workers played is learned from by workers, once, under the rule that they were told; no controller is needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import NoReturn

import pytest
from sqlalchemy import text

from agents.envs.sites.marketplace.app import ALL_TASKS
from agents.plans import anchor_of, rewrite_id
from agents.rollouts.dispatching.durable import Notice, Runner, Terms
from agents.rollouts.dispatching.queue import RolloutQueue
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.history.disown import disown, forged_events
from api.house import House
from api.locks import only_controller
from api.sweeps.backlog import Backlog
from api.sweeps.learner import Learner
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import make_up
from benchmarks.shipped import templates
from eventlog.blobs.memory import MemoryBlobs
from eventlog.events import (
    Anchor,
    ExemplarCaptured,
    FollowLink,
    Forgetting,
    HintRecorded,
    PairedRule,
    RewriteLost,
    RewriteProposed,
    RewriteWon,
    SeedsRule,
    SnippetLearned,
    SweepPlanned,
)
from eventlog.store import Append, Recorded
from projections.pieces import EXEMPLARS
from projections.rewrites import REWRITES
from tests.admitted import admitted
from tests.golden.test_golden_samples import sample
from tests.integration.conftest import Start
from tests.integration.test_learning_again import ended
from tests.integration.test_worker import finished
from tests.unit.test_agent_samples import EVERY_GROUP

SITE = "marketplace"
TASKS = ("marketplace.engine_spec", "marketplace.phone_reveal", "marketplace.price_watch")
FOUND = ["RewriteProposed", "HintRecorded", "ExemplarCaptured", "SnippetLearned"]
TRIED = ["RewriteWon", "RewriteLost", "SubstrateCredited"]


def planned(house: House, name: str) -> tuple[SweepPlanned, str]:
    """A learning sweep in the queue, with a candidate that its treated runs carry."""
    first_facts(house)
    admitted(house.store, SITE)
    own = {task.task_id: task.instruction for task in ALL_TASKS if task.task_id in TASKS}
    found = templates(own)
    moved = next(each for each in found if each.template_id == "marketplace.phone_reveal")
    candidate = proposed(house, anchor_of(moved.plan_steps[0]))
    generator, queue = SeedSweep(name, found, range(3), 2), RolloutQueue(house.engine, SITE)
    sweep = plan(
        house,
        house.views(),
        SITE,
        generator,
        rng_seed=3,
        trials=EVERY_GROUP,
        queue=queue,
        actor="x",
        forgetting=Forgetting(),
    )
    return sweep, candidate


def proposed(house: House, anchor: Anchor) -> str:
    change = FollowLink(page="/", label="Boats for sale")
    event = RewriteProposed(
        rewrite=rewrite_id(anchor, change),
        anchor=anchor,
        change=change,
        rule=PairedRule(controls=1),
        run="elsewhere",
        source="page_links",
        confidence=500_000,
    )
    house.store.append([Append(f"rewrite/{event.rewrite}", (event,), "test")])
    return event.rewrite


def fail(*_: object) -> NoReturn:
    pytest.fail("nothing is to be played or told")


def of(house: House, types: list[str]) -> list[Recorded]:
    return list(house.store.read(types=types))


@pytest.mark.costly("two workers play and learn from whole sweeps")
def test_what_two_workers_played_is_credited_and_captured_once_under_their_rule_and_nothing_is_left_to_a_controller(
    empty_house: House, start: Start
) -> None:
    sweep, candidate = planned(empty_house, "s1")
    options = ("--until-empty", "--rule", "seeds")
    for worker in [start(*options), start(*options)]:
        finished(worker)
    treated = [spec.spec_id for spec in sweep.specs if spec.candidate == candidate]
    tried = [each.event for each in of(empty_house, TRIED)]
    trials = [event for event in tried if isinstance(event, RewriteWon | RewriteLost)]
    assert [event.run for event in trials] == treated != []
    assert Counter(type(event).__name__ for event in tried)["SubstrateCredited"] == len(treated)
    state = empty_house.views().find(REWRITES)[candidate]
    assert state.treated.k == len(treated)
    found = [each for each in of(empty_house, FOUND) if each.actor != "test"]
    assert {each.actor for each in found} == {"runner", "controller"}
    for each in found:
        assert isinstance(each.event, RewriteProposed | HintRecorded | ExemplarCaptured | SnippetLearned)
        assert each.event.rule == SeedsRule()
    assert max(Counter((each.stream, each.actor) for each in found).values()) == 1
    head = empty_house.store.head()
    make_up(empty_house, [sweep], Course(rule=SeedsRule()))
    assert empty_house.store.head() == head


def test_a_worker_learns_from_what_ended_before_it_came_and_tells_where_it_cannot(
    empty_house: House, start: Start
) -> None:
    first_facts(empty_house)
    admitted(empty_house.store, SITE)
    elsewhere = MemoryBlobs()
    ended(replace(empty_house, blobs=elsewhere), "s1")
    told = [event for event in finished(start("--until-empty")) if event["event"] == "unlearned"]
    assert [(event["sweep"], event["error"].partition(":")[0]) for event in told] == [("s1", "BlobMissing")]
    empty_house.blobs.put([elsewhere.get(address) for address in elsewhere.digests()])
    assert [event["event"] for event in finished(start("--until-empty"))] == ["started", "stopped"]
    assert [state.proposed_by for state in empty_house.views().find(EXEMPLARS).values()] == ["s1__good1"]


def test_nothing_is_learned_from_a_log_with_forged_events_until_they_are_disowned(empty_house: House) -> None:
    first_facts(empty_house)
    ended(empty_house, "s1")
    empty_house.store.append([Append("prices", (sample("HintRecorded"),), "api:theirs")])
    told: list[Notice] = []
    learner = Learner(empty_house, PairedRule(), told.append)
    backlog = Backlog(empty_house, SITE, learn=learner.learn, may_learn=learner.may_learn)
    queue = RolloutQueue(empty_house.engine, SITE)
    for _ in range(2):
        backlog.refill(queue)
    assert [notice.kind for notice in told] == ["forged"]
    assert "flywheel log disown" in str(told[0].facts["error"])
    assert not empty_house.views().find(EXEMPLARS)
    views = empty_house.views()
    disown(empty_house.store, views, [event.position for event in forged_events(views)], "stolen", "cli")
    backlog.refill(queue)
    assert len(told) == 1
    assert [state.proposed_by for state in empty_house.views().find(EXEMPLARS).values()] == ["s1__good1"]


def test_learning_whose_connection_was_lost_is_taken_up_again(empty_house: House) -> None:
    first_facts(empty_house)
    ended(empty_house, "s1")
    learner, tries = Learner(empty_house, PairedRule(), fail), list[str]()

    def learn(sweep: SweepPlanned) -> None:
        tries.append(sweep.sweep)
        if len(tries) == 1:
            with empty_house.engine.connect() as connection:
                others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user"
                connection.execute(text(f"{others} AND datname = current_database()"))
        learner.learn(sweep)

    backlog = Backlog(empty_house, SITE, learn=learn)
    terms = Terms(until_empty=True, rescue_after_s=60)
    queue = RolloutQueue(empty_house.engine, SITE)
    runner = Runner(queue, fail, fail, lambda: backlog.refill(queue), fail, terms)
    asyncio.run(runner.run(asyncio.Event()))
    assert tries == ["s1", "s1"]
    assert [state.proposed_by for state in empty_house.views().find(EXEMPLARS).values()] == ["s1__good1"]


def test_what_has_ended_is_learned_from_once_and_never_beside_a_controller(empty_house: House) -> None:
    sweep = ended(empty_house, "s1")
    idle = sweep.model_copy(update={"sweep": "s2", "learns": False})
    empty_house.store.append([Append("sweep/s2", (idle,), "test")])
    given: list[str] = []
    backlog = Backlog(empty_house, SITE, learn=lambda each: given.append(each.sweep))
    queue = RolloutQueue(empty_house.engine, SITE)
    with only_controller(empty_house, SITE):
        assert backlog.refill(queue) == 0
        assert given == []
    for _ in range(2):
        assert backlog.refill(queue) == 0
        assert given == ["s1", "s2"]
