from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp
from random import Random

import numpy as np
import pytest

from benchmarks.gate.looks import SEQUENTIAL, Tally, approximate_tail, run_batch, walk
from benchmarks.gate.truths import Shape, better, one_family, scores
from eventlog.events import Look, Rules
from gate.alpha import Alpha
from gate.arms import Place, Result
from gate.benchmark import most_confirming_runs
from gate.judge import judge, screen, to_confirm
from gate.live import describe_look, evidence_cells
from gate.permutation import divide, lower_tail
from gate.sequential import alpha_spent, look_at, stages
from gate.sizes import plan_size, power_at
from gate.units import order, order_anew, order_units
from tests.unit.test_gate_samples import an_arm, benchmark

ONE = 1_000_000
FIRST = Alpha(1, 5_000, 5_000)
RULES = Rules.default().model_copy(update={"bootstrap_samples": 20})


@pytest.mark.parametrize("share", [200_000, 400_000, 600_000, 800_000])
def test_alpha_is_spent_as_hwang_shih_and_decani_do(share: int) -> None:
    expected = 0.005 * (1 - exp(2 * share / ONE)) / (1 - exp(2))
    spent = alpha_spent(5_000, share, -2_000_000)
    assert float(spent) == pytest.approx(expected, rel=1e-9)
    assert alpha_spent(5_000, ONE, -2_000_000) == Fraction(1, 200)
    assert alpha_spent(5_000, share, 0) == Fraction(5_000 * share, ONE**2)


def test_looks_take_whole_rounds_of_templates_and_shared_seeds_as_one() -> None:
    frozen = benchmark(sealed=20, templates=("a", "b"))
    rules = RULES.model_copy(update={"unit": "instance"})
    assert [len(new) for new in stages(frozen, rules)] == [8] * 5
    assert {task.template for task in stages(frozen, rules)[0][:2]} == {"a", "b"}
    units = order_units(frozen, RULES)
    assert [len(unit) for unit in units] == [2] * 20
    assert all(len({task.env_seed for task in unit}) == 1 for unit in units)
    assert {*order(frozen, RULES)} == {*order(frozen, rules)}


@pytest.mark.parametrize("grain", [1, 4, 50])
def test_simulations_confirm_families_by_the_same_p_as_the_gate(grain: int) -> None:
    rng = np.random.default_rng(grain)
    for instances in (1, 2, 8):
        scores = rng.integers(0, grain + 1, (2, instances, 12)) * (ONE // grain)
        divisions = [divide(first.tolist(), second.tolist()) for first, second in zip(*scores, strict=True)]
        assert float(approximate_tail(divisions)) == pytest.approx(float(lower_tail(divisions)), abs=1e-10)


def test_a_clear_gain_is_promoted_at_its_first_look_and_the_rest_need_not_be_played() -> None:
    frozen = benchmark(sealed=200)
    first = {(task.template, task.env_seed) for task in stages(frozen, RULES)[0]}
    played = [ONE if ("t1", seed) in first else None for seed in range(200)]
    champion = an_arm(frozen, "champion", [None if each is None else 0 for each in played], total_cost=1)
    verdict = judge(champion, an_arm(frozen, "challenger", played, total_cost=1), frozen, RULES, FIRST)
    assert verdict.decision == "promote"
    assert [(look.number, look.of, look.units, look.outcome) for look in verdict.looks] == [(1, 5, 40, "reject")]
    assert verdict.reasons[0] == "p 0.000024999376 is at most the alpha 0.000384896211 spent at look 1 of 5"
    assert (verdict.looked_at, verdict.pairs, verdict.draws, verdict.units) == (40, 40, 40_000, None)


def test_arms_alike_are_held_at_the_first_look_as_futile() -> None:
    frozen = benchmark(sealed=200)
    one, other = an_arm(frozen, "champion", [ONE, 0] * 100), an_arm(frozen, "challenger", [ONE, 0] * 100)
    verdict = judge(one, other, frozen, RULES, FIRST)
    assert (verdict.decision, [look.outcome for look in verdict.looks]) == ("hold", ["futile"])
    assert verdict.reasons[0].endswith("spent at look 1 of 5, too little to play on")


def test_what_is_void_before_its_first_look_tells_no_outcome() -> None:
    frozen = benchmark(sealed=200, visible=1)
    verdict = judge(
        an_arm(frozen, "champion", [None] * 200), an_arm(frozen, "challenger", [ONE] * 200), frozen, RULES, FIRST
    )
    assert (verdict.decision, verdict.looks, verdict.pairs) == ("void", (), 0)
    told = (
        verdict.p_value,
        verdict.mean_delta,
        verdict.interval,
        verdict.wins,
        verdict.visible,
        verdict.challenger.passed,
    )
    assert told == (None, None, None, None, None, 0)


def test_templates_that_share_seeds_are_counted_once_a_seed() -> None:
    frozen = benchmark(sealed=40, templates=("a", "b"))
    stream = Random(1)  # noqa: S311 - sample data
    one = [stream.choice([0, ONE]) for _ in range(40)]
    other = [max(score, stream.choice([0, 0, ONE])) for score in one]
    arms = an_arm(frozen, "champion", one * 2), an_arm(frozen, "challenger", other * 2)
    by_seed = Rules.default("sign_flip").model_copy(update={"bootstrap_samples": 200})
    found = judge(*arms, frozen, by_seed, FIRST)
    naive = judge(*arms, frozen, by_seed.model_copy(update={"unit": "instance"}), FIRST)
    alone = benchmark(sealed=40)
    once = judge(an_arm(alone, "champion", one), an_arm(alone, "challenger", other), alone, by_seed, FIRST)
    assert (found.units, naive.units, once.units) == (40, None, None)
    assert found.p_value == once.p_value
    assert naive.p_value is not None
    assert found.p_value is not None
    assert naive.p_value < found.p_value
    assert found.interval is not None
    assert naive.interval is not None
    assert found.interval.high - found.interval.low > naive.interval.high - naive.interval.low


def test_lost_runs_that_differ_between_the_arms_are_void_even_where_each_was_played_again() -> None:
    frozen = benchmark(sealed=200)
    champion, challenger = an_arm(frozen, "champion", [0] * 200), an_arm(frozen, "challenger", [ONE] * 200)
    lost = {("t1", seed, 0): 2 for seed in range(200)}
    both = judge(replace(champion, lost=lost), replace(challenger, lost=lost), frozen, RULES, FIRST)
    assert (both.decision, both.lost) == ("hold", (80, 80))  # no cost is known
    one = judge(champion, replace(challenger, lost=lost), frozen, RULES, FIRST)
    assert one.decision == "void"
    assert one.reasons[0].startswith("0 runs of the champion and 80 of the challenger were lost: p 0.0")


@pytest.mark.parametrize(("cost", "decision"), [(40_000_000, "promote"), (40_000_001, "hold"), (None, "hold")])
def test_where_no_pair_was_passed_by_both_the_challengers_own_cost_is_bounded(cost: int | None, decision: str) -> None:
    frozen = benchmark(sealed=40)
    rules = Rules.default("sign_flip")
    places = [("t1", seed, 0) for seed in range(40)]
    challenger = an_arm(frozen, "challenger", [ONE] * 40)
    costs = [None if cost is None else cost // 40 + (index == 0) * (cost % 40) for index in range(40)]
    sealed = {place: Result(ONE, passed=True, cost=each) for place, each in zip(places, costs, strict=True)}
    verdict = judge(an_arm(frozen, "champion", [0] * 40), replace(challenger, sealed=sealed), frozen, rules, FIRST)
    assert verdict.decision == decision


def test_a_template_that_loses_is_played_again_whole_and_holds_what_gains_elsewhere() -> None:
    frozen = benchmark(sealed=40, templates=("a", "b"))
    rules = Rules.default("sign_flip").model_copy(
        update={"unit": "instance", "bootstrap_samples": 20, "pass_budget": 0}
    )
    champion = an_arm(frozen, "champion", [0] * 40 + [ONE, ONE, ONE, 0] * 10)
    challenger = an_arm(frozen, "challenger", [ONE] * 40 + [ONE, ONE, 0, 0] * 10)
    assert len(screen(champion, challenger, frozen, rules, FIRST)) == 40  # ten looked worse, and their template
    while asked := to_confirm(champion, challenger, frozen, rules, FIRST):
        fresh: list[Place] = [(template, seed, repeat) for template, seed, repeats in asked for repeat in repeats]
        champion, challenger = (
            replace(arm, confirming={**arm.confirming, **{place: _graded(place, bar) for place in fresh}})
            for arm, bar in ((champion, 9), (challenger, 6))
        )
    verdict = judge(champion, challenger, frozen, rules, FIRST)
    assert verdict.decision == "hold"
    assert [(each.template, each.is_worse, each.instances) for each in verdict.families] == [("b", True, 40)]
    assert verdict.regressions == ()
    assert verdict.reasons[0].startswith("b looked worse and is worse by ")


def _graded(place: Place, bar: int) -> Result:
    is_passed = (place[1] + 7 * place[2]) % 12 < bar
    return Result(ONE * is_passed, is_passed, 1)


def test_regressions_of_scores_are_confirmed_where_nothing_ever_passed() -> None:
    frozen = benchmark(sealed=44)
    rules = Rules.default("sign_flip").model_copy(update={"pass_budget": 0, "bootstrap_samples": 20})
    champion = an_arm(frozen, "champion", [100_000] * 40 + [950_000] * 4)
    challenger = an_arm(frozen, "challenger", [900_000] * 40 + [750_000] * 4)
    for by, regressions in (("score", 4), ("passed", 0)):
        ruled = rules.model_copy(update={"regression_by": by, "curtails": False})
        again = [("t1", seed, 1 + repeat) for seed in range(40, 44) for repeat in range(12)]
        one, other = (
            replace(arm, confirming=dict.fromkeys(again, Result(score, passed=False, cost=1)))
            for arm, score in ((champion, 950_000), (challenger, 750_000))
        )
        assert len(judge(one, other, frozen, ruled, FIRST).regressions) == regressions


def test_a_drawn_pool_decides_as_all_signs_together_would() -> None:
    """The benchmark counts the distribution that the gate draws from; both stop at the same look."""
    shape, rng = Shape(60, 1), np.random.default_rng(4)
    batch = better(0.3)(rng, 30, shape)
    stop, rejects = walk(batch, SEQUENTIAL, 40_000)
    frozen = benchmark(sealed=12, templates=("a", "b", "c", "d", "e"))
    rules, agreed = RULES.model_copy(update={"unit": "instance", "min_pairs": 1, "draws_per_alpha": 1_000}), 0
    places = [(task.template, task.env_seed, 0) for task in order(frozen, rules)]
    for one in range(30):
        arms = [an_arm(frozen, name, [0] * 60) for name in ("champion", "challenger")]
        for index, scored in enumerate((batch.first, batch.second)):
            graded = {p: Result(ONE * int(s), bool(s), 1) for p, s in zip(places, scored[one, :, 0], strict=True)}
            arms[index] = replace(arms[index], sealed=graded)
        last = look_at(arms[0], arms[1], frozen, rules, Alpha(1, 40_000, 40_000)).last
        assert last is not None
        agreed += (last.number - 1, last.outcome == "reject") == (stop[one], rejects[one])
    assert agreed >= 29


@pytest.mark.parametrize("truth", [better(0.2), one_family(0.3), scores(loses=True, gain=0.2)])
def test_simulated_evaluations_play_again_what_the_gate_asks_for(truth: object) -> None:
    tally = Tally()
    run_batch(truth(np.random.default_rng(1), 5, Shape(50, 2)), SEQUENTIAL, 200_000, tally)  # type: ignore[operator]
    assert tally.evaluations == sum(tally.looks) == 5
    assert tally.promoted + tally.vetoed <= tally.rejected


def test_a_look_is_one_line_with_its_evidence_in_tenths_of_the_boundary() -> None:
    look = Look(number=2, of=5, units=80, p_value=10**10, boundary=10**9, outcome="continue")
    assert evidence_cells(look) == 6
    line = "look 2 of 5 ▕██████░░░░▏ plays on; 208 of at most 1,040 runs (confirming losses may take up to 6,216 more)"
    assert describe_look(look, 208, 1_040, 6_216) == line
    assert evidence_cells(look.model_copy(update={"p_value": 10**12})) == 0
    assert evidence_cells(look.model_copy(update={"outcome": "reject"})) == 10


def test_each_challenger_of_a_benchmark_meets_its_instances_in_an_order_of_its_own() -> None:
    frozen, rules = benchmark(sealed=20, templates=("t1", "t2")), Rules.default()
    seen = {order_units(frozen, order_anew(rules, frozen, number)) for number in range(1, 11)}
    assert len(seen) == 10
    first = {frozenset(found[:4]) for found in seen}
    assert len(first) > 5
    assert order_anew(rules, frozen, 1) == order_anew(rules, frozen, 1)
    other = frozen.model_copy(update={"digest": "f" * 64})
    assert order_anew(rules, frozen, 1) != order_anew(rules, other, 1)
    assert order_anew(Rules.seeds(), frozen, 1) == Rules.seeds()
    with_looks = Rules.default("e_process")
    assert order_anew(with_looks, frozen, 2).rng_seed == order_anew(rules, frozen, 2).rng_seed < 2**32


def test_confirming_takes_at_most_every_instance_but_the_one_that_gained() -> None:
    frozen = benchmark(sealed=10, visible=3)
    assert most_confirming_runs(frozen, Rules.default()) == 2 * 9 * 12


def test_a_planned_benchmark_is_the_smallest_with_its_power() -> None:
    size = plan_size(150_000, 800_000, 1, 5_000)
    assert size is not None
    assert 240 <= size.instances <= 270
    assert size.power >= 800_000 > power_at(size.instances - 1, 1, 150_000, 5_000)
    assert size.runs == 2 * size.instances
    assert plan_size(10_000, 990_000, 1, 1) is None
