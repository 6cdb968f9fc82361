from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import permutations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.allocator import (
    KINDS,
    Allotment,
    OpenGroup,
    Value,
    affordable_substrates,
    allot_substrates,
    choose_substrate,
    credit_choice,
    greedy,
    value_of,
)
from eventlog.events import AnyEvent, Forgetting, Substrate, SubstrateCredited
from projections.rewards import RewardState
from projections.substrates import SUBSTRATES, SubstrateStats, cluster_key, standings
from tests.golden.test_golden_samples import sample
from tests.unit.test_agent_samples import spec
from tests.unit.test_folds_samples import states

ARMS: tuple[Substrate, ...] = tuple(KINDS)[:5]
EVERY = frozenset(ARMS)
SURE = Forgetting(spread=0)
GAINS = st.one_of(st.none(), st.integers(-1_000_000, 1_000_000))


def values(**gains: int | None) -> list[Value]:
    return [Value(name, gains.get(name), 10, weight=10_000_000) for name in ARMS if name in gains]


def test_what_is_unknown_goes_first_and_of_those_the_one_with_fewer_pending() -> None:
    found = [Value("hints", 999_999, 10), Value("rewrites", None, None, 1), Value("recipes", None, None, 0)]
    choice = choose_substrate(found, EVERY, forgetting=SURE, stream="s")
    assert choice is not None
    assert (choice.substrate, choice.reason, choice.value) == ("recipes", "unknown", None)


def test_without_exploring_the_one_that_is_worth_the_most_is_chosen_and_ties_go_by_name() -> None:
    for order in permutations(values(hints=5, exemplars=7, rewrites=7)):
        choice = choose_substrate(order, EVERY, forgetting=SURE, stream="s")
        assert choice is not None
        assert (choice.substrate, choice.reason, choice.value) == ("exemplars", "exploit", 7)


def share(found: list[Value], substrate: Substrate, forgetting: Forgetting) -> float:
    """Share of choices that take a substrate."""
    choices = [choose_substrate(found, EVERY, forgetting=forgetting, stream=f"7/{n}") for n in range(2_000)]
    return sum(each is not None and each.substrate == substrate for each in choices) / len(choices)


def test_of_two_alike_each_is_chosen_half_of_the_time_and_a_far_better_one_almost_always() -> None:
    assert 0.46 < share(values(hints=5, rewrites=5), "hints", Forgetting()) < 0.54
    assert share(values(hints=700_000, rewrites=0), "hints", Forgetting()) > 0.99


def test_what_is_known_less_well_is_tried_more_often() -> None:
    best = Value("hints", 500_000, 10, weight=30_000_000)
    seldom, often = (Value("rewrites", 300_000, 10, weight=weight) for weight in (1_000_000, 30_000_000))
    assert share([best, seldom], "rewrites", Forgetting()) > 4 * share([best, often], "rewrites", Forgetting())


def test_the_draws_of_a_choice_are_about_normal() -> None:
    """One value is drawn around nothing, with a standard deviation of the spread."""
    beside = Value("rewrites", 0, 10, weight=10**15)
    alone = Value("hints", 0, 10)
    for bound, expected in ((0, 0.5), (300_000, 0.1587)):
        fixed = Value("rewrites", bound, 10, weight=10**15) if bound else beside
        assert abs(share([alone, fixed], "hints", Forgetting()) - expected) < 0.035


def test_nothing_is_chosen_where_nothing_can_be() -> None:
    assert choose_substrate(values(hints=5), frozenset(), forgetting=SURE, stream="s") is None
    assert (
        choose_substrate(values(hints=5), affordable_substrates(values(hints=5), 0), forgetting=SURE, stream="s")
        is None
    )


def test_a_budget_leaves_out_what_costs_more_and_holds_the_unknown_to_the_dearest() -> None:
    found = [Value("hints", 1, 10), Value("rewrites", 1, 30), Value("recipes", None, None)]
    assert affordable_substrates(found, None) == {"hints", "rewrites", "recipes"}
    assert affordable_substrates(found, 29) == {"hints"}
    assert affordable_substrates(found, 30) == {"hints", "rewrites", "recipes"}


def test_an_evaluation_takes_the_best_and_none_where_nothing_is_worth_anything() -> None:
    assert greedy(values(hints=5, rewrites=9, recipes=None)) == "rewrites"
    assert greedy(values(hints=0, rewrites=-4, recipes=None)) is None


def test_what_never_applied_is_worth_nothing_after_a_few_choices() -> None:
    assert value_of("hints", SubstrateStats(substrate="hints", chosen=2, idle=2)).gain is None
    assert value_of("hints", SubstrateStats(substrate="hints", chosen=3, idle=3)).gain == 0


def test_outages_say_nothing_of_a_substrate() -> None:
    assert value_of("hints", SubstrateStats(substrate="hints", chosen=9, unknown=9)).gain is None
    assert value_of("hints", SubstrateStats(substrate="hints", chosen=9, idle=2, unknown=7)).gain is None


def test_what_was_tried_and_never_applied_does_not_go_before_a_loss_that_was_credited() -> None:
    idle = value_of("hints", SubstrateStats(substrate="hints", chosen=3, idle=3))
    lost = value_of("rewrites", SubstrateStats(substrate="rewrites", chosen=1, pulls=1, gain=-5, cost=10))
    fresh = value_of("recipes", None)
    taken = [
        choose_substrate(found, EVERY, forgetting=SURE, stream="s")
        for found in ([idle, lost], [idle, lost, fresh], [idle])
    ]
    assert [None if each is None else each.substrate for each in taken] == ["rewrites", "recipes", "hints"]


@given(
    gains=st.dictionaries(st.sampled_from(ARMS), GAINS, min_size=1),
    spread=st.integers(0, 1_000_000),
    stream=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    data=st.data(),
)
def test_a_choice_is_one_that_can_be_and_the_order_of_the_values_does_not_matter(
    gains: Mapping[Substrate, int | None], spread: int, stream: str, data: st.DataObject
) -> None:
    found = [Value(name, gain, None if gain is None else 10) for name, gain in gains.items()]
    can_be = data.draw(st.frozensets(st.sampled_from(ARMS)))
    choice = choose_substrate(found, can_be, forgetting=Forgetting(spread=spread), stream=stream)
    again = choose_substrate(
        data.draw(st.permutations(found)), can_be, forgetting=Forgetting(spread=spread), stream=stream
    )
    assert choice == again
    assert (choice is None) == (not can_be & gains.keys())
    if choice is not None:
        assert choice.substrate in can_be
        unknown = any(gains[name] is None for name in can_be & gains.keys())
        assert (choice.reason == "unknown") == unknown
        if choice.reason == "exploit":
            assert choice.value == max(gains[name] or 0 for name in can_be & gains.keys()) or choice.value is not None


def test_the_groups_of_a_sweep_go_round_what_is_unknown() -> None:
    places = [OpenGroup(f"g{n}", "policy", EVERY) for n in range(10)]
    found = allot_substrates({}, places, Allotment("marketplace", "m-2", 7))
    assert [each.substrate for each in found[:5]] == sorted(ARMS)
    assert {each.reason for each in found} == {"unknown"}
    assert [each.group for each in found] == [place.group for place in places]


def test_a_group_that_nothing_is_open_to_has_no_choice() -> None:
    places = [OpenGroup("g1", "policy", frozenset()), OpenGroup("g2", "policy", frozenset({"hints"}))]
    assert [each.group for each in allot_substrates({}, places, Allotment("marketplace", "m-2", 7))] == ["g2"]


def test_choices_stop_where_the_budget_is_used_up() -> None:
    known = states(SUBSTRATES, *(sample("SubstrateCredited", substrate=name, cost=40) for name in ARMS))
    places = [OpenGroup(f"g{n}", "knowledge", EVERY) for n in range(10)]
    found = allot_substrates(known, places, Allotment("marketplace", "m-2", 7, budget_left=100))
    assert [each.budget_left for each in found] == [100, 60]


def rewards(**each: int | None) -> dict[str, RewardState]:
    return {f"s1__{run}": RewardState(run=f"s1__{run}", value=value, cost=12) for run, value in each.items()}


@pytest.mark.parametrize(
    ("known", "gain"),
    [
        (rewards(t=900_000, a=0, b=100_000), 850_000),
        (rewards(t=0, a=0, b=1), -1),
        (rewards(t=900_000, a=0), None),
        (rewards(t=None, a=0, b=0), None),
        (rewards(a=0, b=0), None),
    ],
)
def test_a_gain_is_the_reward_above_the_mean_of_the_frozen_siblings(
    known: dict[str, RewardState], gain: int | None
) -> None:
    (choice,) = allot_substrates({}, [OpenGroup("g1", "policy", EVERY)], Allotment("marketplace", "m-2", 7))
    event = credit_choice(choice, spec("t", candidate="c"), [spec("b"), spec("a")], known, applied=True)
    assert (event.gain, event.control_runs, event.run, event.group) == (gain, ("s1__a", "s1__b"), "s1__t", "g1")


def learned(worth: Mapping[Substrate, float], seed: int, rounds: int = 12, groups: int = 16) -> Substrate | None:
    """What an evaluation takes after rounds of a coin for each arm, the values coming from the fold alone."""
    coin, log = random.Random(seed), list[AnyEvent]()  # noqa: S311 a coin, not a secret
    for number in range(rounds):
        places = [OpenGroup(f"r{number}g{n}", "policy", EVERY) for n in range(groups)]
        choices = allot_substrates(states(SUBSTRATES, *log), places, Allotment("marketplace", f"m-{number}", seed))
        log += choices
        for each in choices:
            gain = 1_000_000 if coin.random() < worth[each.substrate] else 0
            log.append(
                SubstrateCredited(
                    environment=each.environment,
                    cluster=each.cluster,
                    substrate=each.substrate,
                    group=each.group,
                    run=each.group,
                    control_runs=(),
                    applied=True,
                    gain=gain,
                    cost=10,
                )
            )
    found = standings(states(SUBSTRATES, *log), "marketplace", "policy")
    assert cluster_key("marketplace", "policy") in states(SUBSTRATES, *log)
    return greedy(value_of(name, found.get(name)) for name in ARMS)


def test_with_five_arms_the_greedy_evaluation_is_within_five_percent_of_the_best() -> None:
    worth: dict[Substrate, float] = dict(zip(ARMS, (0.2, 0.4, 0.95, 0.5, 0.05), strict=True))
    taken = [learned(worth, seed) for seed in range(20)]
    assert fmean(0.0 if name is None else worth[name] for name in taken) >= 0.95 * max(worth.values())
