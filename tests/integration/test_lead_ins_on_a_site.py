"""Exemplars and recipes on the real site: what one task does before a step, another that lacks it learns to do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agents.envs.clients.client import EnvClient
from agents.learning.occasions import text_and_change
from agents.plans import Plan
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.history.replay import replay_run
from api.house import House
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import play_sweep
from eventlog.events import (
    Applied,
    InsertSteps,
    PairedRule,
    PieceKind,
    RunStarted,
    Step,
    SweepPlanned,
    Template,
    Trials,
)
from projections.memories import FOLDS
from projections.pieces import PieceState
from projections.rewards import REWARDS
from tests.golden.make import Quiet

START = Step(type="navigate", intent="start on the first page", url="/")
BOATS = Step(type="click", intent="look at the boats", label="Boats for sale")
CHEAPEST_FIRST = Step(type="select_option", intent="sort from low to high", label="Sort by", value="Price: low to high")
OWNERS = Step(type="select_option", intent="private owners only", label="Seller", value="Private owner")

KNOWS, LACKS = "marketplace.lead_filtered_search", "marketplace.phone_reveal"
RULE = PairedRule(looks=(5,), least_v=15, bound=40)
"""A rule that five trials can satisfy: each of them plays runs that fail, and those try every cure first."""
EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)
SEEDS = range(3)


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


def written(client: EnvClient, task: str, lead: Plan, *, knows_it: bool) -> Template:
    """A task whose plan comes to `OWNERS` first, right after the lead-in or without it, and then to all else."""
    template = next(each for each in site_templates(client) if each.template_id == task)
    before = {step.label for step in (OWNERS, *lead)}
    after = tuple(step for step in template.plan_steps[1:] if step.label not in before)
    return template.model_copy(update={"plan_steps": (START, *(lead if knows_it else ()), OWNERS, *after)})


def swept(
    house: House, client: EnvClient, name: str, tasks: Sequence[Template], seeds: range, siblings: int, kind: PieceKind
) -> SweepPlanned:
    generator = SeedSweep(name, tasks, seeds, siblings)
    only = frozenset({kind})
    sweep = plan(house, house.views(), "marketplace", generator, rng_seed=3, trials=EVERY_GROUP, kinds=only)
    play_sweep(house, client, sweep, Course(max_parallel=4, rule=RULE, kinds=only), Quiet())
    return sweep


def passed(house: House, sweep: SweepPlanned, task: str) -> list[bool]:
    rewards = house.views().find(REWARDS, f"{sweep.sweep}__")
    return [rewards[spec.spec_id].passed for spec in sweep.specs if spec.template == task]


def applied(house: House, sweep: SweepPlanned, task: str) -> set[tuple[Applied, ...]]:
    found = set()
    for spec in sweep.specs:
        started = next(house.store.read(stream=f"run/{spec.spec_id}")).event
        if isinstance(started, RunStarted) and spec.template == task:
            found.add(started.applied)
    return found


@pytest.mark.parametrize(("kind", "lead"), [("exemplar", (BOATS,)), ("recipe", (BOATS, CHEAPEST_FIRST))])
def test_the_steps_that_another_task_takes_before_a_shared_one_are_captured_tried_promoted_and_applied(
    empty_house: House, client: EnvClient, kind: PieceKind, lead: Plan
) -> None:
    house = empty_house
    first_facts(house)
    knows, lacks = written(client, KNOWS, lead, knows_it=True), written(client, LACKS, lead, knows_it=False)
    first = swept(house, client, "first", (knows, lacks), SEEDS, 2, kind)
    assert (passed(house, first, KNOWS), passed(house, first, LACKS)) == ([True] * 6, [False] * 6)
    ((name, captured),) = house.views().find(FOLDS[kind]).items()
    assert isinstance(captured, PieceState)
    assert (captured.status, captured.source) == ("candidate", "good_run")
    assert captured.proposed_by in {spec.spec_id for spec in first.specs if spec.template == KNOWS}
    assert text_and_change(house.blobs.get(captured.content).body)[1] == InsertSteps(steps=lead)

    swept(house, client, "tried", (lacks,), range(100, 100 + RULE.looks[0]), 1 + RULE.controls, kind)
    state = house.views().find(FOLDS[kind])[name]
    assert (state.status, state.treated.wins, state.treated.control_successes) == ("promoted", RULE.looks[0], 0)

    last = swept(house, client, "last", (knows, lacks), SEEDS, 2, kind)
    assert (passed(house, last, KNOWS), passed(house, last, LACKS)) == ([True] * 6, [True] * 6)
    assert applied(house, last, LACKS) == {(Applied(piece=name, kind=kind, step=1),)}
    assert applied(house, last, KNOWS) == {()}
    carrying = next(spec.spec_id for spec in last.specs if spec.template == LACKS)
    assert replay_run(house.store, house.blobs, house.views, carrying).outcome == "identical"
