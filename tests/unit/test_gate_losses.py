"""What lost runs cost: in the test that decides, in what looks worse, and in the fresh repeats that confirm it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gate.charged import first_rejections
from benchmarks.gate.looks import SEQUENTIAL, Tally, run_batch
from benchmarks.gate.truths import Shape, lossy
from eventlog.events import Rules
from eventlog.events import Test as DecidingTest
from gate.alpha import Alpha
from gate.arms import Arm, Place, Result, pairs
from gate.confirmation import confirm, find_suspects
from gate.judge import judge
from gate.losses import charge_of, charged_units, count_lost_as_failed
from gate.sequential import look_at
from gate.strata import stratify
from gate.units import order
from tests.unit.test_gate_samples import an_arm, benchmark

ONE = 1_000_000
FIRST = Alpha(1, 5_000, 5_000)
TESTS: tuple[DecidingTest, ...] = ("sign_flip", "group_sequential", "e_process")


def ruled(test: DecidingTest = "sign_flip", **changed: object) -> Rules:
    plain = {"bootstrap_samples": 20, "pass_budget": 0, "max_missing_p": 0, "min_pairs": 20}
    return Rules.default(test).model_copy(update=plain | changed)


def losing(arm: Arm, seeds: range, times: int = 1) -> Arm:
    return replace(arm, lost={("t1", seed, 0): times for seed in seeds})


def test_rules_of_older_evaluations_charge_nothing_and_are_stored_as_before() -> None:
    assert not Rules().charges_losses
    assert not Rules.seeds().charges_losses
    assert "charges_losses" not in Rules().model_dump(mode="json")
    assert Rules.default().charges_losses


@pytest.mark.parametrize("test", TESTS)
def test_a_challenger_whose_gain_lies_where_it_lost_runs_is_held(test: DecidingTest) -> None:
    """It would fail thirty others than the champion, as many, and passes 28 of them at a further try."""
    frozen = benchmark(sealed=100)
    champion = an_arm(frozen, "champion", [ONE] * 70 + [0] * 30, total_cost=1)
    challenger = an_arm(frozen, "challenger", [ONE] * 28 + [0] * 2 + [ONE] * 70, total_cost=1)
    rules = ruled(test, confirm_repeats=0, family_p=0, looks=(400_000, ONE), futility=())
    assert judge(champion, challenger, frozen, rules, FIRST).decision == "promote"
    lost = losing(challenger, range(28))
    assert judge(champion, lost, frozen, rules.model_copy(update={"charges_losses": False}), FIRST).decision == (
        "promote"
    )
    assert judge(champion, lost, frozen, rules, FIRST).decision == "hold"


@pytest.mark.parametrize("test", TESTS)
def test_losses_that_both_arms_share_cost_no_promotion(test: DecidingTest) -> None:
    frozen = benchmark(sealed=100)
    champion = an_arm(frozen, "champion", [0] * 30 + [ONE] * 70, total_cost=1)
    challenger = an_arm(frozen, "challenger", [ONE] * 100, total_cost=1)
    both = losing(champion, range(40, 45)), losing(challenger, range(50, 55))
    assert judge(*both, frozen, ruled(test, confirm_repeats=0, family_p=0), FIRST).decision == "promote"


def test_a_place_that_lost_a_run_costs_the_mean_score_over_the_share_that_the_champion_kept() -> None:
    frozen = benchmark(sealed=10)
    champion = an_arm(frozen, "champion", [ONE] * 4 + [0] * 6)
    challenger = an_arm(frozen, "challenger", [ONE] * 8 + [0, None])
    tasks = order(frozen, ruled())
    compared = pairs(champion, challenger, frozen, tasks)
    assert charge_of(compared, champion, frozen, tasks) == 666_667  # 12 of 18 results passed
    assert charge_of(compared, losing(champion, range(1)), frozen, tasks) == 740_741
    assert charge_of(compared, losing(champion, range(10)), frozen, tasks) == ONE
    units = charged_units(champion, losing(challenger, range(9, 10), 3), frozen, tasks, ruled())
    assert units.value_at(("", 9), 600_000) == -600_000  # once, however often, and without a pair
    assert units.sum_at([("", seed) for seed in range(10)], 600_000) == 4 * ONE - 600_000
    both = charged_units(losing(champion, range(1)), losing(challenger, range(1)), frozen, tasks, ruled())
    assert both.value_at(("", 0), 600_000) == 0


def test_a_place_that_lost_a_run_counts_as_failed_in_its_arm() -> None:
    frozen = benchmark(sealed=2)
    arm = losing(an_arm(frozen, "challenger", [ONE, None]), range(2))
    assert [each.score for each in count_lost_as_failed(arm).sealed.values()] == [0, 0]


def test_looks_are_the_same_when_they_are_taken_and_when_all_was_played() -> None:
    """Losses at later looks change nothing about the earlier ones."""
    frozen, rng = benchmark(sealed=100), np.random.default_rng(1)
    rules = ruled("group_sequential", futility=())
    scores = (rng.random((2, 100)) < np.array([[0.5], [0.72]])) * ONE
    lost = (rng.random((2, 100)) < 0.1).astype(int)
    arms = [an_arm(frozen, name, scores[row].tolist()) for row, name in enumerate(("champion", "challenger"))]  # type: ignore[arg-type]
    arms = [
        replace(arm, lost={("t1", seed, 0): 1 for seed in range(100) if lost[row, seed]})
        for row, arm in enumerate(arms)
    ]
    whole = look_at(arms[0], arms[1], frozen, rules, FIRST)
    assert len(whole.looks) > 2
    tasks = order(frozen, rules)
    for number in range(1, len(whole.looks)):
        known = {(task.template, task.env_seed, 0) for task in tasks[: 20 * number]}
        early = [_only(arm, known) for arm in arms]
        assert look_at(early[0], early[1], frozen, rules, FIRST, most=number).looks == whole.looks[:number]


def _only(arm: Arm, known: set[Place]) -> Arm:
    sealed = {place: result for place, result in arm.sealed.items() if place in known}
    return replace(arm, sealed=sealed, lost={place: times for place, times in arm.lost.items() if place in known})


def test_what_an_arm_always_loses_looks_worse() -> None:
    frozen = benchmark(sealed=4)
    champion = an_arm(frozen, "champion", [ONE, 0, ONE, 0])
    challenger = losing(an_arm(frozen, "challenger", [None, None, ONE, ONE]), range(2), 3)
    found = pairs(champion, challenger, frozen, frozen.tasks).instances
    strata = stratify((each.template, each.deltas) for each in found)
    failing = pairs(champion, count_lost_as_failed(challenger), frozen, frozen.tasks).instances
    assert find_suspects(found, strata, ruled()).worse == ()
    suspects = find_suspects(found, strata, ruled(), failing)
    assert [each.env_seed for each in suspects.worse] == [0]
    assert [len(family) for family in suspects.families] == []


@pytest.mark.parametrize(("charges", "is_regression"), [(True, True), (False, False)])
def test_fresh_repeats_that_pass_at_a_further_try_confirm_a_regression(charges: bool, is_regression: bool) -> None:
    frozen, rules = benchmark(sealed=1), ruled(charges_losses=charges, curtails=False)
    again: list[Place] = [("t1", 0, repeat) for repeat in range(1, 13)]
    played = dict.fromkeys(again, Result(ONE, passed=True, cost=1))
    champion = replace(an_arm(frozen, "champion", [ONE]), confirming=played)
    challenger = replace(an_arm(frozen, "challenger", [0]), confirming=played, lost=dict.fromkeys(again[:8], 1))
    found = pairs(champion, challenger, frozen, frozen.tasks).instances
    suspects = find_suspects(found, stratify((each.template, each.deltas) for each in found), rules)
    (confirmed,) = confirm(suspects, champion, challenger, frozen, rules).instances
    assert confirmed.is_regression is is_regression
    assert (confirmed.challenger_passed, confirmed.challenger_runs) == (12, 12)
    alike = replace(champion, lost=dict.fromkeys(again[:8], 1))
    (spared,) = confirm(suspects, alike, challenger, frozen, rules).instances
    assert not spared.is_regression


def test_simulations_charge_what_the_gate_charges() -> None:
    shape, rng = Shape(60, 1), np.random.default_rng(2)
    batch = lossy(0.3, 0.1, 0.2)(rng, 30, shape)
    frozen = benchmark(sealed=12, templates=("a", "b", "c", "d", "e"))
    rules = ruled("group_sequential", unit="instance", min_pairs=1, draws_per_alpha=1_000, futility=())
    places: list[Place] = [(task.template, task.env_seed, 0) for task in order(frozen, rules)]
    own = (batch.first[:, :, 0], batch.second[:, :, 0], batch.kept, batch.lost)
    charged = first_rejections(*own, [12, 24, 36, 48, 60], rules, 40_000, 5)
    agreed = 0
    for one in range(30):
        arms = [an_arm(frozen, name, [0] * 60) for name in ("champion", "challenger")]
        for row, scored in enumerate((batch.first, batch.second)):
            graded = {
                place: Result(ONE * int(score), bool(score), 1)
                for place, score, lost in zip(places, scored[one, :, 0], batch.lost[row, one], strict=True)
                if lost < 3
            }
            lost = {p: int(times) for p, times in zip(places, batch.lost[row, one], strict=True) if times}
            arms[row] = replace(arms[row], sealed=graded, lost=lost)
        alpha, tolerant = Alpha(1, 40_000, 40_000), rules.model_copy(update={"max_missing": ONE})
        plain = look_at(arms[0], arms[1], frozen, tolerant.model_copy(update={"charges_losses": False}), alpha).last
        both = look_at(arms[0], arms[1], frozen, tolerant, alpha).last
        assert plain is not None
        assert both is not None
        if plain.outcome == "reject":
            later = max(plain.number - 1, charged[one])
            agreed += (both.outcome == "reject") == (later < 5) and both.number - 1 == min(later, 4)
        else:
            agreed += both.outcome == plain.outcome
    assert agreed >= 29


def test_a_challenger_that_crashes_on_what_it_fails_is_not_promoted_for_it() -> None:
    shape, found = Shape(100, 1), []
    for rules in (SEQUENTIAL.model_copy(update={"charges_losses": False}), SEQUENTIAL):
        tally = Tally()
        run_batch(lossy(0, 0.05, 0.3, 0.8)(np.random.default_rng(1), 400, shape), rules, 50_000, tally)
        found.append(tally.rejected)
    assert found[1] < found[0] / 2
