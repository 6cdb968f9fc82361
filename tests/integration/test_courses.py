"""The controller within a budget on a real site: it stops, says why, and goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agents.envs.clients.client import EnvClient
from agents.learning.memory import build_memory_artifact, content_reader
from agents.plans import anchor_of
from agents.rollouts.dispatching.durable import Terms
from agents.rollouts.sweep import SeedSweep
from api.controllers.fast import Controller
from api.course import Course
from api.evaluations.evaluate import judge_again
from api.house import House
from api.queries.benchmarks import present_benchmark
from api.queries.champion import present_champion
from api.sweeps.candidates import trial_pool
from api.sweeps.plan import first_facts, plan
from api.sweeps.worker import work
from benchmarks.shipped import PLANS, template
from eventlog.events import (
    CourseClosed,
    CourseOpened,
    PairedRule,
    RewriteWon,
    SubstrateChosen,
    SubstrateCredited,
    SweepPlanned,
    Trials,
)
from gate.promote import open_evaluation, settle_evaluation
from projections.runs import RUNS
from projections.substrates import SUBSTRATES
from projections.verdicts import VERDICTS
from tests.admitted import admitted
from tests.golden.make import Quiet
from tests.unit.test_agent_samples import add, decide_rewrite, propose

SITE = "marketplace"
COURSE = Course(seeds_per_round=3, max_rounds=2, max_parallel=4, clusters=("navigation",))


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


def controller(house: House, client: EnvClient, course: Course = COURSE) -> Controller:
    admitted(house.store, SITE)
    return Controller(house, client, SITE, course, Quiet())


def test_a_course_ends_where_its_runs_are_spent_and_no_round_goes_beyond_them(
    client: EnvClient, empty_house: House
) -> None:
    house, seen = empty_house, []
    course = replace(COURSE, max_runs=9)
    why = replace(controller(house, client, course), watch=lambda rounds, _: seen.append(rounds)).run()
    assert why == "what is left of 9 runs is not enough for a round"
    assert len(house.views().find(RUNS)) == 8
    assert [type(each.event) for each in house.store.read(stream=f"course/{SITE}")] == [CourseOpened, CourseClosed]
    assert [(each.ended, each.runs) for each in seen[-1]] == [(8, 8)]


def test_who_was_told_to_stop_leaves_the_course_to_the_next_who_spends_what_is_left(
    client: EnvClient, empty_house: House
) -> None:
    house = empty_house
    stops = iter([False, False, True])
    stopped = replace(controller(house, client), is_told_to_stop=lambda: next(stops)).run()
    assert "stopped on request" in stopped
    assert controller(house, client).run() == "the gate has judged everything that 2 rounds found"
    events = [recorded.event for recorded in house.store.read()]
    assert sum(isinstance(event, SweepPlanned) for event in events) == 2
    assert [type(each.event) for each in house.store.read(stream=f"course/{SITE}")] == [CourseOpened, CourseClosed]
    choices = [event for event in events if isinstance(event, SubstrateChosen)]
    credited = [event for event in events if isinstance(event, SubstrateCredited)]
    assert choices
    assert {event.group for event in credited} == {event.group for event in choices}
    assert all(event.applied and event.gain is not None for event in credited)
    (state,) = house.views().find(SUBSTRATES).values()
    assert state.pulls == len(credited)


def test_a_worker_in_the_role_of_a_controller_ends_when_its_course_does(client: EnvClient, empty_house: House) -> None:
    house, said = empty_house, []

    def controlling(is_told_to_stop: Callable[[], bool]) -> str:
        course = replace(COURSE, max_rounds=1)
        said.append(replace(controller(house, client, course), is_told_to_stop=is_told_to_stop).run())
        return said[0]

    work(house, None, SITE, Terms(4), lambda _: None, follows=False, controlling=controlling)
    assert said == ["the gate has judged everything that 1 round found"]


def test_a_course_whose_evaluation_was_void_ends_there_whoever_goes_on_with_it(
    client: EnvClient, empty_house: House
) -> None:
    house = empty_house
    stops = iter([False, True])
    replace(controller(house, client), is_told_to_stop=lambda: next(stops)).run()
    views = house.views()
    present, benchmark = present_champion(views).pointed_artifact(), present_benchmark(views, SITE)
    no_champion = present.model_copy(update={"weights": "other"})
    open_evaluation(house.store, "eval-1", benchmark, no_champion, present, COURSE.rules, "controller")
    settle_evaluation(house.store, "eval-1", judge_again(house, "eval-1"), 1, "controller")
    assert house.views().find(VERDICTS)["eval-1"].decision == "void"
    assert controller(house, client).run() == "eval-1 was decided: void"
    assert house.views().find(RUNS) == {}
    assert controller(house, client).run() == "the gate has judged everything that 2 rounds found"


@pytest.mark.parametrize(("task", "opened"), [("helpdesk.triage_inbox", []), ("marketplace.phone_reveal", ["eval-1"])])
def test_what_helps_on_another_site_alone_is_not_judged_here(
    task: str, opened: list[str], client: EnvClient, empty_house: House
) -> None:
    house = empty_house
    propose(house.store, "rw-a", anchor_of(PLANS[task][0]))
    decide_rewrite(house.store, "rw-a", True, True, True)
    first_facts(house)
    assert (
        build_memory_artifact(house.views(), "base")[0].memory.digest
        != present_champion(house.views()).pointed_artifact().memory.digest
    )
    stops = iter([False, True])
    course = replace(COURSE, max_rounds=0)
    said = replace(controller(house, client, course), is_told_to_stop=lambda: next(stops)).run()
    assert ("stopped on request" in said) == bool(opened)
    assert list(house.views().find(VERDICTS)) == opened


@pytest.mark.parametrize(("task", "withheld"), [("helpdesk.triage_inbox", 0), ("marketplace.phone_reveal", 200_000)])
def test_a_share_of_the_groups_withholds_only_where_a_promoted_piece_is_of_its_tasks(
    task: str, withheld: int, empty_house: House
) -> None:
    house = empty_house
    rule = PairedRule(controls=1, single=((1, 1),), single_trials=1, wins_in_a_row=1)
    propose(house.store, "rw-a", anchor_of(PLANS[task][0]), rule)
    won = RewriteWon(rewrite="rw-a", run="rw-a-0", control_runs=("c",), control_successes=0)
    add(house.store, "rewrite/rw-a", won)
    first_facts(house)
    (held,) = trial_pool(house.views(), content_reader(house.blobs)).promoted
    drawn = SeedSweep("s1", [template("marketplace.phone_reveal", "Show its phone number.")], range(2), 2)
    sweep = plan(house, house.views(), SITE, drawn, rng_seed=7, trials=Trials())
    assert sweep.trials is not None
    assert (held.piece.piece, sweep.trials.withheld_micro) == ("rw-a", withheld)
