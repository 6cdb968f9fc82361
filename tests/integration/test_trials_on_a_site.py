from __future__ import annotations

from collections import Counter

import pytest

from agents.envs.clients.client import EnvClient
from agents.plans import anchor_of, rewrite_id
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.history.replay import replay_run
from api.house import House
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import credit, play_sweep
from eventlog.events import (
    Change,
    FollowLink,
    MemoryQuarantined,
    PairedRule,
    PieceTried,
    ReplaceUrl,
    RewriteLost,
    RewriteProposed,
    RewriteWon,
    RunStarted,
    SweepPlanned,
    Template,
    Trials,
)
from eventlog.store import Append
from projections.datasets.variance import classify_group
from projections.evidence import Paired
from projections.groups import find_groups
from projections.rewards import REWARDS
from projections.rewrites import REWRITES, RewriteState
from tests.golden.make import Quiet

CURE, WRONG = FollowLink(page="/", label="Boats for sale"), ReplaceUrl(url="/no-such-page")
HALVES = Trials(treated_micro=500_000, withheld_micro=500_000)
COURSE = Course(max_parallel=4)
SEEDS = range(8)


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


@pytest.fixture
def template(client: EnvClient) -> Template:
    """A task whose first page moves from seed to seed."""
    return next(each for each in site_templates(client) if each.template_id == "marketplace.phone_reveal")


def propose(house: House, template: Template, change: Change, rule: PairedRule | None = None) -> str:
    """A candidate for the template's first step."""
    anchor = anchor_of(template.plan_steps[0])
    rewrite = rewrite_id(anchor, change)
    event = RewriteProposed(
        rewrite=rewrite,
        anchor=anchor,
        change=change,
        rule=rule or PairedRule(),
        run="proposer",
        source="page_links",
        confidence=500_000,
    )
    house.store.append([Append(f"rewrite/{rewrite}", (event,), "test", key=f"propose:{rewrite}")])
    return rewrite


def try_before(house: House, rewrite: str, trials: int, *, controls_pass: bool) -> None:
    """Trials from elsewhere, all of them won."""
    for number in range(trials):
        runs = tuple(f"before-{number}-{index}" for index in range(4))
        event = RewriteWon(
            rewrite=rewrite, run=runs[3], control_runs=runs[:3], control_successes=3 if controls_pass else 0
        )
        house.store.append([Append(f"rewrite/{rewrite}", (event,), "test")])


def stands(house: House, rewrite: str) -> RewriteState:
    state = house.views().get(REWRITES, rewrite)
    assert state is not None
    return state


def swept(house: House, client: EnvClient, template: Template, name: str, trials: Trials) -> SweepPlanned:
    generator = SeedSweep(name, (template,), SEEDS, 4)
    sweep = plan(house, house.views(), "marketplace", generator, rng_seed=3, trials=trials)
    play_sweep(house, client, sweep, COURSE, Quiet())
    return sweep


def test_one_sweep_tries_a_candidate_and_does_without_a_promoted_piece(
    empty_house: House, client: EnvClient, template: Template
) -> None:
    house = empty_house
    first_facts(house)
    cure, wrong = propose(house, template, CURE), propose(house, template, WRONG)
    try_before(house, cure, 10, controls_pass=False)
    assert stands(house, cure).status == "promoted"
    sweep = swept(house, client, template, "s1", HALVES)
    tried = [spec for spec in sweep.specs if not spec.is_plain]
    kinds = Counter((spec.candidate, spec.withheld) for spec in tried)
    assert set(kinds) == {(wrong, None), (None, cure)}
    assert kinds.total() == len(SEEDS)
    _check_what_they_carried(house, sweep, cure)
    _check_their_trials(house, sweep, cure, wrong)
    head = house.store.head()
    credit(house, sweep)
    assert house.store.head() == head


def _check_what_they_carried(house: House, sweep: SweepPlanned, cure: str) -> None:
    for spec in sweep.specs:
        first = next(house.store.read(stream=f"run/{spec.spec_id}")).event
        assert isinstance(first, RunStarted)
        assert first.artifact == sweep.artifact
        expected = () if spec.withheld else (spec.candidate or cure,)
        assert tuple(item.piece for item in first.applied) == expected
    withheld = next(spec for spec in sweep.specs if spec.withheld)
    assert replay_run(house.store, house.blobs, house.views, withheld.spec_id).outcome == "identical"


def _check_their_trials(house: House, sweep: SweepPlanned, cure: str, wrong: str) -> None:
    rewards = house.views().find(REWARDS, "s1__")
    events = [item.event for item in house.store.read(types=["RewriteWon", "RewriteLost", "PieceTried"])][10:]
    tried = [spec for spec in sweep.specs if not spec.is_plain]
    assert [getattr(event, "run", None) for event in events] == [spec.spec_id for spec in tried]
    for spec, event in zip(tried, events, strict=True):
        assert isinstance(event, RewriteWon | RewriteLost | PieceTried)
        assert event.control_runs == tuple(f"{spec.group_id}__s{index}" for index in range(3))
        assert event.control_successes == sum(rewards[run].passed for run in event.control_runs) == 3
        if isinstance(event, PieceTried):
            assert (event.piece, event.kind, event.withheld) == (cure, "rewrite", True)
            assert event.won == rewards[spec.spec_id].passed
        else:
            assert event.rewrite == wrong
            assert isinstance(event, RewriteLost)
    state, other = stands(house, cure), stands(house, wrong)
    assert (state.status, other.status) == ("promoted", "candidate")
    assert state.withheld.k == sum(spec.withheld is not None for spec in tried)
    assert state.withheld.u < 0
    assert (other.treated.k, other.wins) == (len(tried) - state.withheld.k, 0)
    groups = find_groups(house.views(), "s1__").values()
    assert all(classify_group(group, "value").n == 3 for group in groups)


@pytest.mark.parametrize("before", ["retired", "quarantined"])
def test_what_was_given_up_is_tried_again_when_a_run_finds_it_again(
    empty_house: House, client: EnvClient, template: Template, before: str
) -> None:
    house = empty_house
    first_facts(house)
    cure = propose(house, template, CURE)
    try_before(house, cure, 50, controls_pass=True)
    if before == "quarantined":
        out = MemoryQuarantined(piece=cure, kind="rewrite", restored=0, reason="it broke")
        house.store.append([Append("champion", (out,), "test")])
    assert stands(house, cure).status == before
    sweep = swept(house, client, template, "s1", HALVES)
    assert all(spec.is_plain for spec in sweep.specs)
    state = stands(house, cure)
    assert (state.status, state.is_on_trial) == ("candidate" if before == "retired" else "quarantined", True)
    assert (state.treated.k, state.wins) == (0, 50)
    assert state.proposed_by.startswith("s1__")
    proposals = list(house.store.read(stream=f"rewrite/{cure}", types=["RewriteProposed"]))
    assert len(proposals) == 2


def test_what_is_cold_stays_out_of_memory_and_comes_back_as_a_candidate(
    empty_house: House, client: EnvClient, template: Template
) -> None:
    """With no days of idleness allowed, it is cold as soon as it was promoted."""
    house = empty_house
    first_facts(house)
    cure = propose(house, template, CURE, PairedRule(cold_after_days=0))
    try_before(house, cure, 10, controls_pass=False)
    assert stands(house, cure).status == "promoted"
    sweep = swept(house, client, template, "s1", HALVES)
    assert sweep.artifact.memory.without == (cure,)
    assert all(spec.is_plain for spec in sweep.specs)
    state = stands(house, cure)
    assert (state.status, state.treated.k, state.promoted_since) == ("candidate", 0, None)
    assert isinstance(state.rule, Paired)
    assert state.rule.cold_after_days == 30
