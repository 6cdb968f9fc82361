from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import Rules, Verdict
from gate.alpha import Alpha
from gate.judge import judge, screen
from tests.unit.test_gate_samples import HALF, UNSPENT, an_arm, artifact, benchmark, sealed_places

ONE = 1_000_000
SCORES = st.sampled_from([0, 250_000, HALF, 560_000, ONE])
ARMS = st.integers(2, 10).flatmap(
    lambda tasks: st.tuples(
        st.lists(SCORES, min_size=2 * tasks, max_size=2 * tasks),
        st.lists(SCORES, min_size=2 * tasks, max_size=2 * tasks),
    )
)


BY_PASSED = Rules.seeds().model_copy(update={"cost_basis": "passed_pairs"})


def judged(
    champion: Sequence[int | None],
    challenger: Sequence[int | None],
    rules: Rules | None = None,
    *,
    repeats: int = 1,
    costs: tuple[int | None, int | None] = (None, None),
) -> Verdict:
    frozen = benchmark(sealed=len(champion) // repeats, repeats=repeats)
    first = an_arm(frozen, "champion", champion, total_cost=costs[0])
    second = an_arm(frozen, "challenger", challenger, total_cost=costs[1])
    return judge(first, second, frozen, rules or Rules.seeds(), UNSPENT)


def against_half(tasks: int, deltas: Sequence[int], costs: tuple[int | None, int | None] = (None, None)) -> Verdict:
    """The reference's arms: the champion scores a half everywhere, the challenger differs in the first tasks."""
    padded = [*deltas, *[0] * (tasks - len(deltas))]
    return judged([HALF] * tasks, [HALF + delta for delta in padded], costs=costs)


@pytest.mark.parametrize(
    ("tasks", "deltas", "probability", "decision"),
    [
        (3, [HALF], 708_000, "hold"),
        (3, [HALF] * 2, 970_500, "promote"),
        (4, [HALF] * 2, 935_500, "hold"),
        (8, [HALF] * 2, 917_500, "hold"),
        (8, [HALF] * 3, 980_000, "promote"),
        (8, [HALF] * 4 + [-HALF], 901_000, "hold"),
        (15, [HALF] * 3, 965_000, "promote"),
        (1, [HALF], ONE, "promote"),
    ],
)
def test_the_seeds_gate_on_its_reference_outcomes(
    tasks: int, deltas: list[int], probability: int, decision: str
) -> None:
    verdict = against_half(tasks, deltas)
    assert verdict.prob_improvement == probability
    assert verdict.decision == decision
    assert verdict.pairs == tasks


def test_reference_one_whole_loss_in_eight() -> None:
    verdict = judged([ONE] * 8, [0, *[ONE] * 7])
    assert (verdict.mean_delta, verdict.prob_improvement, verdict.decision) == (-125_000, 0, "hold")
    assert verdict.regressions == ("t1__seed0",)


def test_reference_the_loss_among_wins_is_the_one_regression() -> None:
    assert against_half(8, [HALF] * 4 + [-HALF]).regressions == ("t1__seed4",)


def test_reference_identical_arms() -> None:
    verdict = judged([HALF] * 8, [HALF] * 8)
    assert (verdict.win_rate, verdict.prob_improvement, verdict.decision) == (ONE, 0, "hold")


def test_reference_a_hundredth_everywhere_is_certain_and_too_little() -> None:
    verdict = against_half(8, [10_000] * 8)
    assert (verdict.prob_improvement, verdict.decision) == (ONE, "hold")
    assert verdict.reasons == ("mean difference 0.01 is below 0.02",)


@pytest.mark.parametrize(("loss", "decision"), [(-50_000, "promote"), (-50_001, "hold")])
def test_reference_exactly_the_tolerance_is_tolerated(loss: int, decision: str) -> None:
    assert against_half(20, [HALF] * 8 + [loss]).decision == decision


@pytest.mark.parametrize(
    ("costs", "decision", "words"),
    [
        ((2_000_000, 3_000_000), "promote", "cost $3 is at most 1.5 times the champion's $2"),
        ((2_000_000, 3_000_001), "hold", "cost $3.000001 is more than 1.5 times the champion's $2"),
        ((2_000_000, 3_010_000), "hold", "cost $3.01 is more than 1.5 times the champion's $2"),
        ((2_000_000, None), "hold", "the challenger's cost is unknown beside the champion's $2"),
        ((None, 9_000_000), "promote", "costs are not compared: the champion's is unknown"),
        ((0, 9_000_000), "promote", "costs are not compared: the champion cost nothing"),
        ((0, None), "hold", "the challenger's cost is unknown beside the champion's $0"),
    ],
)
def test_costs(costs: tuple[int | None, int | None], decision: str, words: str) -> None:
    verdict = against_half(15, [HALF] * 15, costs=costs)
    assert verdict.decision == decision
    assert words in verdict.reasons
    assert (verdict.champion.cost, verdict.challenger.cost) == costs


DEARER = [10, *[1] * 9], [10, *[1_000] * 9]
"""Both passed only the first of ten; where the champion gave up early it was cheap."""


def compared(rules: Rules, champion: Sequence[int], challenger: Sequence[int], passed_by_both: int) -> Verdict:
    """The challenger passes all ten tasks, the champion the first few."""
    frozen = benchmark(sealed=10)
    scores = [ONE] * passed_by_both + [0] * (10 - passed_by_both)
    first = an_arm(frozen, "champion", scores, costs=champion)
    return judge(first, an_arm(frozen, "challenger", [ONE] * 10, costs=challenger), frozen, rules, UNSPENT)


def test_costs_are_compared_over_the_pairs_that_both_passed() -> None:
    verdict = compared(BY_PASSED, *DEARER, passed_by_both=1)
    assert verdict.decision == "promote"
    assert verdict.reasons[-1] == (
        "cost $0.00001 is at most 1.5 times the champion's $0.00001 over the 1 pair that both passed"
    )
    assert (verdict.champion.compared_cost, verdict.challenger.compared_cost) == (10, 10)
    assert (verdict.champion.cost, verdict.challenger.cost) == (19, 9_010)


def test_the_seeds_rules_compare_the_costs_of_all_pairs() -> None:
    assert (Rules().cost_basis, Rules.seeds().cost_basis) == ("passed_pairs", "all_pairs")
    verdict = compared(Rules.seeds(), *DEARER, passed_by_both=1)
    assert verdict.reasons == ("cost $0.00901 is more than 1.5 times the champion's $0.000019",)
    assert (verdict.champion.compared_cost, verdict.challenger.compared_cost) == (19, 9_010)


def test_a_dearer_success_is_held_by_either_basis() -> None:
    cheap, dear = [10] * 10, [16] * 10
    for rules in (BY_PASSED, Rules.seeds()):
        verdict = compared(rules, cheap, dear, passed_by_both=3)
        assert verdict.decision == "hold"
        assert "is more than 1.5 times" in verdict.reasons[0]


def test_costs_are_not_compared_where_both_passed_nothing() -> None:
    verdict = compared(BY_PASSED, [1] * 10, [1_000_000] * 10, passed_by_both=0)
    assert verdict.decision == "promote"
    assert verdict.reasons[-1] == "costs are not compared: there is no pair that both arms passed"
    assert (verdict.champion.compared_cost, verdict.challenger.compared_cost) == (None, None)
    assert (verdict.champion.cost, verdict.challenger.cost) == (10, 10_000_000)


def test_an_unknown_cost_outside_the_compared_pairs_does_no_harm() -> None:
    frozen = benchmark(sealed=10)
    first = an_arm(frozen, "champion", [ONE, *[0] * 9], costs=[10, *[None] * 9])
    second = an_arm(frozen, "challenger", [ONE] * 10, costs=[10, *[None] * 9])
    verdict = judge(first, second, frozen, BY_PASSED, UNSPENT)
    assert (verdict.decision, verdict.champion.cost, verdict.champion.compared_cost) == ("promote", None, 10)


@given(ARMS)
def test_without_costs_both_bases_judge_the_same(arms: tuple[list[int], list[int]]) -> None:
    assert judged(*arms, BY_PASSED, repeats=2).decision == judged(*arms, Rules.seeds(), repeats=2).decision


def test_an_arm_without_a_pair_has_no_mean_score() -> None:
    verdict = judged([None], [ONE])
    assert (verdict.champion.mean_score, verdict.challenger.mean_score) == (None, None)


def test_one_unknown_cost_makes_the_total_unknown() -> None:
    frozen = benchmark(sealed=3)
    first = an_arm(frozen, "champion", [0, 0, 0], total_cost=5)
    place = sealed_places(frozen)[2]
    partly = replace(first, sealed={**first.sealed, place: replace(first.sealed[place], cost=None)})
    assert judge(partly, an_arm(frozen, "challenger", [ONE] * 3), frozen, Rules.seeds(), UNSPENT).champion.cost is None


def test_a_promotion_says_why_each_check_passed() -> None:
    assert against_half(15, [HALF] * 3).reasons == (
        "mean difference 0.1 is at least 0.02",
        "probability of improvement 0.965 is at least 0.95",
        "win rate 1 is at least 0.5",
        "0 regressions of more than 0.05, at most the 0 allowed",
        "costs are not compared: the champion's is unknown",
    )


def test_a_hold_lists_everything_that_failed() -> None:
    verdict = judged([ONE] * 4, [0, 0, 0, ONE], costs=(10, 16))
    assert verdict.reasons == (
        "mean difference -0.75 is below 0.02",
        "probability of improvement 0 is below 0.95",
        "win rate 0.25 is below 0.5",
        "3 regressions of more than 0.05, more than the 0 allowed",
        "cost $0.000016 is more than 1.5 times the champion's $0.00001",
    )


def test_an_arm_is_summed_over_its_pairs() -> None:
    verdict = judged(
        [ONE, 0, 0, 0], [ONE, ONE, None, ONE], Rules.seeds().model_copy(update={"max_missing": ONE}), repeats=2
    )
    assert (verdict.pairs, verdict.missing) == (2, 1)
    assert (verdict.champion.runs, verdict.champion.passed, verdict.champion.mean_score) == (3, 1, 250_000)
    assert (verdict.challenger.runs, verdict.challenger.passed, verdict.challenger.mean_score) == (3, 3, ONE)
    assert verdict.mean_delta == 750_000
    assert verdict.champion.artifact == artifact(0)


def test_a_repeat_does_not_weigh_more_than_its_instance() -> None:
    """The first instance gains in one of three repeats, the second in its only one left."""
    verdict = judged(
        [0] * 6, [ONE, 0, 0, ONE, None, None], Rules.seeds().model_copy(update={"max_missing": ONE}), repeats=3
    )
    assert verdict.mean_delta == 666_666


def test_arms_without_a_pair_are_void() -> None:
    verdict = judged([ONE, None], [None, ONE])
    assert verdict.decision == "void"
    assert verdict.reasons == (
        "the arms have no sealed pair to compare",
        "2 of 2 sealed pairs are missing, more than a share of 0.05",
    )
    assert (verdict.mean_delta, verdict.interval, verdict.prob_improvement, verdict.win_rate) == (None,) * 4
    assert (verdict.champion.runs, verdict.champion.cost, verdict.regressions) == (0, None, ())


@pytest.mark.parametrize(("missing", "decision"), [(1, "promote"), (2, "void")])
def test_a_twentieth_may_be_missing_and_no_more(missing: int, decision: str) -> None:
    verdict = judged([0] * 20, [*[ONE] * (20 - missing), *[None] * missing])
    assert (verdict.decision, verdict.missing) == (decision, missing)


def test_what_is_missing_in_either_arm_counts() -> None:
    assert judged([None, *[0] * 19], [*[ONE] * 19, None]).decision == "void"


def test_a_void_verdict_keeps_the_figures_it_has() -> None:
    verdict = judged([0, 0], [ONE, None])
    assert (verdict.decision, verdict.mean_delta, verdict.pairs) == ("void", ONE, 1)
    assert len(verdict.reasons) == 1


def test_arms_that_do_not_belong_together_are_void_with_every_reason() -> None:
    frozen, other = benchmark(sealed=2), benchmark(sealed=2, repeats=2)
    champion = an_arm(other, "champion", [0] * 4)
    verdict = judge(champion, an_arm(frozen, "champion", [ONE] * 2, evaluation="ev2"), frozen, Rules.seeds(), UNSPENT)
    assert verdict.decision == "void"
    assert verdict.reasons == (
        f"the champion played the benchmark {other.digest[:8]}, not {frozen.digest[:8]}",
        "the champion stands where the challenger belongs",
        "the arms are of two evaluations: ev1 and ev2",
    )
    assert (verdict.pairs, verdict.missing, verdict.mean_delta) == (0, 2, None)


def test_visible_results_decide_nothing() -> None:
    frozen = benchmark(sealed=8, visible=2)
    champion, challenger = an_arm(frozen, "champion", [HALF] * 8), an_arm(frozen, "challenger", [HALF] * 8)
    seen = {("t1", 1000, 0): replace(challenger.sealed["t1", 0, 0], score=ONE)}
    with_visible = replace(challenger, visible=seen)
    assert judge(champion, with_visible, frozen, Rules.seeds(), UNSPENT) == judge(
        champion, challenger, frozen, Rules.seeds(), UNSPENT
    )


@given(ARMS)
def test_identical_arms_never_promote(arms: tuple[list[int], list[int]]) -> None:
    assert judged(arms[0], arms[0], repeats=2).decision == "hold"


@given(ARMS, st.randoms(use_true_random=False))
def test_the_order_of_tasks_and_of_results_changes_nothing(arms: tuple[list[int], list[int]], shuffle: Random) -> None:
    frozen = benchmark(sealed=len(arms[0]) // 2, repeats=2)
    champion, challenger = an_arm(frozen, "champion", arms[0]), an_arm(frozen, "challenger", arms[1])
    tasks, results = list(frozen.tasks), list(challenger.sealed.items())
    shuffle.shuffle(tasks)
    shuffle.shuffle(results)
    reordered = frozen.model_copy(update={"tasks": tuple(tasks)})
    assert judge(champion, challenger, frozen, Rules.seeds(), UNSPENT) == judge(
        champion, replace(challenger, sealed=dict(results)), reordered, Rules.seeds(), UNSPENT
    )


@given(ARMS, st.data())
def test_losing_results_never_promotes_where_none_may_be_missing(
    arms: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    lost = data.draw(st.sets(st.integers(0, len(arms[1]) - 1), min_size=1))
    challenger = [None if index in lost else score for index, score in enumerate(arms[1])]
    assert (
        judged(arms[0], challenger, Rules.seeds().model_copy(update={"max_missing": 0}), repeats=2).decision == "void"
    )


@given(ARMS, st.data())
def test_losing_more_than_the_allowance_never_promotes(arms: tuple[list[int], list[int]], data: st.DataObject) -> None:
    planned = len(arms[0])
    lost = data.draw(st.sets(st.integers(0, planned - 1), min_size=planned // 20 + 1))
    champion = [None if index in lost else score for index, score in enumerate(arms[0])]
    assert judged(champion, arms[1], repeats=2).decision == "void"


def test_within_the_allowance_a_lost_pair_takes_its_regression_with_it() -> None:
    """What `a missing repeat drops its pair in both arms` means: the reader of a verdict has `missing` to see it by."""
    champion = [HALF] * 20
    assert judged(champion, [*[ONE] * 19, 0]).decision == "hold"
    assert judged(champion, [*[ONE] * 19, None]).decision == "promote"


def test_the_bootstrap_says_nothing_of_the_tests_with_an_alpha_and_has_nothing_played_again() -> None:
    frozen = benchmark(sealed=20, visible=1)
    arms = an_arm(frozen, "champion", [0] * 19 + [ONE]), an_arm(frozen, "challenger", [ONE] * 19 + [0])
    verdict = judge(*arms, frozen, Rules.seeds(), Alpha(3, 5_000, 15_000))
    assert (verdict.alpha, verdict.alpha_spent) == (5_000, 15_000)
    unsaid = ("missing_p", "p_value", "draws", "looked_at", "e_value", "wins", "ties", "losses", "mcnemar", "power")
    assert [getattr(verdict, name) for name in (*unsaid, "pairs_needed", "visible")] == [None] * 12
    assert (verdict.screened, verdict.confirmations, verdict.strata) == ((), (), ())
    assert screen(*arms, frozen, Rules.seeds(), UNSPENT) == ()


@given(ARMS)
def test_a_promotion_meets_every_rule(arms: tuple[list[int], list[int]]) -> None:
    rules = Rules.seeds()
    verdict = judged(*arms, rules, repeats=2)
    assert verdict.mean_delta is not None
    assert verdict.prob_improvement is not None
    assert verdict.win_rate is not None
    meets = (
        verdict.mean_delta >= rules.min_mean_delta
        and verdict.prob_improvement >= rules.min_prob_improvement
        and verdict.win_rate >= rules.min_win_rate
        and len(verdict.regressions) <= rules.max_regressions
    )
    assert (verdict.decision == "promote") == meets
