from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference  # type: ignore[import-untyped]

from eventlog.events import BenchmarkFrozen, Rules, Verdict
from gate.alpha import Alpha
from gate.arms import Arm, Place, Result
from gate.errors import UnknownTest
from gate.judge import judge, screen
from tests.unit.test_gate_samples import HALF, UNSPENT, an_arm, benchmark

ONE = 1_000_000
FIRST = Alpha(1, 5_000, 5_000)
LOOSE = Rules(min_pairs=1, bootstrap_samples=50)
"""Few instances are enough, so that one difference shows."""
ALL_COSTS = LOOSE.model_copy(update={"cost_basis": "all_pairs"})


def arms(
    champion: Sequence[int | None],
    challenger: Sequence[int | None],
    repeats: int = 1,
    costs: tuple[int | None, int | None] = (None, None),
) -> tuple[Arm, Arm, BenchmarkFrozen]:
    """Both arms and their benchmark, of one template."""
    frozen = benchmark(sealed=len(champion) // repeats, repeats=repeats)
    first = an_arm(frozen, "champion", champion, total_cost=costs[0])
    return first, an_arm(frozen, "challenger", challenger, total_cost=costs[1]), frozen


def judged(
    champion: Sequence[int | None],
    challenger: Sequence[int | None],
    rules: Rules = LOOSE,
    *,
    repeats: int = 1,
    costs: tuple[int | None, int | None] = (None, None),
    spent: Alpha = FIRST,
) -> Verdict:
    return judge(*arms(champion, challenger, repeats, costs), rules, spent)


def replayed(arm: Arm, instances: Mapping[int, int], of: int = 12) -> Arm:
    """The arm with fresh repeats of instances: how many of `of` each passed, by its seed."""
    fresh: dict[Place, Result] = {
        ("t1", seed, 1 + index): Result(ONE * (index < passed), index < passed, 1)
        for seed, passed in instances.items()
        for index in range(of)
    }
    return replace(arm, confirming=fresh)


def test_a_clear_gain_is_promoted_and_every_check_says_why() -> None:
    verdict = judged([0] * 40, [ONE] * 20 + [0] * 20, Rules(), spent=Alpha(2, 5_000, 10_000))
    assert verdict.decision == "promote"
    assert verdict.reasons == (
        "p 0.000000953675 is at most the alpha 0.005 of this challenger",
        "mean difference 0.5 is at least 0.02",
        "costs are not compared: there is no pair that both arms passed",
        "no sealed instance looked worse",
    )
    assert (verdict.p_value, verdict.draws, verdict.looked_at, verdict.e_value) == (953_675, None, 40, None)
    assert (verdict.alpha, verdict.alpha_spent, verdict.missing_p) == (5_000, 10_000, 10**12)
    assert (verdict.wins, verdict.ties, verdict.losses, verdict.win_rate) == (20, 20, 0, HALF)
    assert (verdict.screened, verdict.confirmations, verdict.regressions) == ((), (), ())


def test_a_hold_lists_everything_that_failed() -> None:
    verdict = judged([ONE] * 4, [0, 0, 0, ONE], ALL_COSTS, costs=(10, 16))
    assert verdict.decision == "hold"
    assert verdict.reasons == (
        "p 1 is above the alpha 0.005 of this challenger",
        "mean difference -0.75 is below 0.02",
        "cost $0.000016 is more than 1.5 times the champion's $0.00001",
    )
    assert verdict.screened == ("t1__seed0", "t1__seed1", "t1__seed2")
    assert verdict.confirmations == ()


@pytest.mark.parametrize(
    ("wins", "alpha", "decision"),
    [(7, 7_812, "hold"), (7, 7_813, "promote"), (6, 15_624, "hold"), (6, 15_625, "promote")],
)
def test_p_is_compared_with_alpha_exactly(wins: int, alpha: int, decision: str) -> None:
    """Six wins and no loss have a p of 1 / 64 = 0.015625, which is at most that alpha; seven of 0.0078125."""
    assert judged([0] * 10, [ONE] * wins + [0] * (10 - wins), spent=Alpha(1, alpha, alpha)).decision == decision


def test_ties_are_no_wins() -> None:
    verdict = judged([HALF] * 50, [HALF] * 50, Rules())
    assert (verdict.decision, verdict.p_value, verdict.win_rate, verdict.ties) == ("hold", 10**12, 0, 50)


def test_one_instance_is_void() -> None:
    verdict = judged([0], [ONE], Rules())
    assert verdict.decision == "void"
    assert verdict.reasons == ("1 sealed instance to compare, fewer than 40",)
    assert (verdict.mean_delta, verdict.p_value) == (ONE, HALF * ONE)


@pytest.mark.parametrize(("instances", "decision"), [(39, "void"), (40, "promote")])
def test_forty_instances_are_enough(instances: int, decision: str) -> None:
    assert judged([0] * instances, [ONE] * instances, Rules()).decision == decision


def test_arms_without_a_pair_are_void_whatever_the_rules_allow() -> None:
    verdict = judged([None], [None], Rules(min_pairs=0, max_missing=ONE))
    assert (verdict.decision, verdict.reasons) == ("void", ("0 sealed instances to compare, fewer than 1",))
    nothing = (verdict.p_value, verdict.mean_delta, verdict.interval, verdict.wins, verdict.power, verdict.win_rate)
    assert nothing == (None,) * 6
    assert (verdict.looked_at, verdict.strata) == (1, ())


@pytest.mark.parametrize(("missing", "decision"), [(6, "promote"), (8, "void")])
def test_a_twentieth_may_be_missing_and_no_more(missing: int, decision: str) -> None:
    champion: list[int | None] = [0] * 120
    challenger: list[int | None] = [ONE] * 120
    for index in range(0, missing, 2):
        champion[3 * index] = challenger[3 * index + 3] = None
    verdict = judged(champion, challenger, Rules(), repeats=3)
    assert (verdict.decision, verdict.missing, verdict.missing_p) == (decision, missing, 10**12)


@pytest.mark.parametrize(("lost", "decision", "p"), [(5, "promote", 62_500_000_000), (6, "void", 31_250_000_000)])
def test_what_is_missing_may_not_differ_between_the_arms(lost: int, decision: str, p: int) -> None:
    verdict = judged([0] * 200, [None] * lost + [ONE] * (200 - lost), Rules())
    assert (verdict.decision, verdict.missing_p) == (decision, p)
    if decision == "void":
        assert verdict.reasons == ("the champion lacks 0 pairs and the challenger 6: p 0.03125 is below 0.05",)


def test_a_contaminated_run_makes_it_void_and_is_named() -> None:
    champion, challenger, frozen = arms([0] * 40, [ONE] * 40)
    verdict = judge(champion, replace(challenger, contaminated=("run-7",)), frozen, Rules(), FIRST)
    assert verdict.decision == "void"
    assert verdict.reasons == ("the run run-7 began from another state than the others of its instance",)
    assert screen(champion, replace(challenger, contaminated=("run-7",)), frozen, Rules(), FIRST) == ()


def test_arms_that_do_not_belong_together_are_void_with_every_reason() -> None:
    frozen, other = benchmark(sealed=40), benchmark(sealed=40, repeats=2)
    champion = an_arm(other, "champion", [0] * 80)
    for test in ("sign_flip", "e_process"):
        rules = Rules().model_copy(update={"test": test})
        verdict = judge(champion, an_arm(frozen, "champion", [ONE] * 40, evaluation="ev2"), frozen, rules, FIRST)
        assert verdict.decision == "void"
        assert verdict.reasons == (
            f"the champion played the benchmark {other.digest[:8]}, not {frozen.digest[:8]}",
            "the champion stands where the challenger belongs",
            "the arms are of two evaluations: ev1 and ev2",
        )
        assert (verdict.pairs, verdict.mean_delta, verdict.p_value, verdict.e_value) == (0, None, None, None)


def test_a_test_nobody_knows_is_refused() -> None:
    unknown = Rules().model_copy(update={"test": "guess"})
    for ask in (judge, screen):
        with pytest.raises(
            UnknownTest, match="'guess': expected one of group_sequential, sign_flip, e_process, bootstrap"
        ):
            ask(*arms([0], [ONE]), unknown, FIRST)


def test_a_gain_below_the_margin_is_held() -> None:
    verdict = judged([HALF] * 40, [HALF + 19_999] * 40)
    assert (verdict.decision, verdict.reasons) == ("hold", ("mean difference 0.019999 is below 0.02",))
    assert judged([HALF] * 40, [HALF + 20_000] * 40).decision == "promote"


@pytest.mark.parametrize(("cost", "decision"), [(15, "promote"), (16, "hold")])
def test_costs_may_be_half_as_much_again(cost: int, decision: str) -> None:
    assert judged([HALF] * 10, [ONE] * 10, costs=(10, cost)).decision == decision


def test_nothing_is_promoted_where_there_is_no_alpha() -> None:
    verdict = judged([0] * 40, [ONE] * 40, spent=UNSPENT)
    assert (verdict.decision, verdict.power) == ("hold", None)


GAIN = [0] * 30 + [ONE] * 2, [ONE] * 30 + [0] * 2
"""Thirty instances won, two lost."""


def test_what_looks_worse_is_screened_only_where_all_else_would_promote() -> None:
    assert screen(*arms(*GAIN), LOOSE, FIRST) == (("t1", 30), ("t1", 31))
    assert screen(*arms(GAIN[1], GAIN[0]), LOOSE, FIRST) == ()
    assert screen(*arms(*GAIN), Rules(), FIRST) == ()
    assert screen(*arms(*GAIN, costs=(1, 9)), ALL_COSTS, FIRST) == ()


@pytest.mark.parametrize(("passed", "decision"), [((12, 5), "hold"), ((12, 8), "promote"), ((3, 12), "promote")])
def test_a_regression_is_what_fresh_repeats_confirm(passed: tuple[int, int], decision: str) -> None:
    champion, challenger, frozen = arms(*GAIN)
    first, second = replayed(champion, {30: passed[0], 31: 6}), replayed(challenger, {30: passed[1], 31: 6})
    verdict = judge(first, second, frozen, LOOSE, FIRST)
    assert verdict.decision == decision
    assert verdict.screened == ("t1__seed30", "t1__seed31")
    table = [[passed[1], 12 - passed[1]], [passed[0], 12 - passed[0]]]
    theirs = reference.fisher_exact(table, alternative="less").pvalue
    one = verdict.confirmations[0]
    assert one.p_value == pytest.approx(theirs * 10**12, abs=1.01)
    assert one.is_regression == (theirs <= 0.05 / 2) == (decision == "hold")
    assert (one.champion_runs, one.champion_passed, one.challenger_passed) == (12, *passed)
    assert verdict.regressions == (("t1__seed30",) if decision == "hold" else ())
    if decision == "hold":
        assert verdict.reasons == ("1 confirmed of 2 instances that looked worse: t1__seed30",)


def test_the_more_instances_look_worse_the_more_it_takes_to_confirm_one() -> None:
    """Twelve against seven has a p of 0.0186: enough alone, not among three."""
    for losses, decision in ((1, "hold"), (3, "promote")):
        champion, challenger, frozen = arms([0] * 40 + [ONE] * losses, [ONE] * 40 + [0] * losses)
        seeds = dict.fromkeys(range(41, 40 + losses), 12)
        first, second = replayed(champion, {40: 12, **seeds}), replayed(challenger, {40: 7, **seeds})
        assert judge(first, second, frozen, LOOSE, FIRST).decision == decision


def test_repeats_that_were_not_played_count_against_the_challenger() -> None:
    champion, challenger, frozen = arms(*GAIN)
    verdict = judge(champion, challenger, frozen, LOOSE, FIRST)
    assert verdict.decision == "hold"
    lacking = "48 confirming runs missing, counted against the challenger"
    assert verdict.reasons == (f"2 confirmed of 2 instances that looked worse: t1__seed30, t1__seed31; {lacking}",)
    assert {(each.champion_runs, each.challenger_runs) for each in verdict.confirmations} == {(0, 0)}
    fair = {30: 9, 31: 9}
    whole = judge(replayed(champion, fair), replayed(challenger, fair), frozen, LOOSE, FIRST)
    partly = judge(replayed(champion, fair, of=11), replayed(challenger, fair, of=11), frozen, LOOSE, FIRST)
    assert whole.decision == partly.decision == "promote"
    assert all(a.p_value < b.p_value for a, b in zip(partly.confirmations, whole.confirmations, strict=True))


def test_fresh_repeats_never_enter_the_test_itself() -> None:
    champion, challenger, frozen = arms(*GAIN)
    fair = {30: 9, 31: 9}
    found = judge(replayed(champion, fair), replayed(challenger, fair), frozen, LOOSE, FIRST)
    bare = judge(champion, challenger, frozen, LOOSE, FIRST)
    decided_by = {"decision", "reasons", "confirmations", "regressions"}
    assert found.model_dump(exclude=decided_by) == bare.model_dump(exclude=decided_by)


def test_a_repeat_does_not_weigh_more_than_its_instance() -> None:
    """The first instance gains in one of three repeats, the second in its only one left."""
    verdict = judged([0] * 6, [ONE, 0, 0, ONE, None, None], Rules(max_missing=ONE), repeats=3)
    assert verdict.mean_delta == 666_666


def test_an_instance_does_not_weigh_more_than_its_template() -> None:
    frozen = benchmark(sealed=3, templates=("a", "b"))
    champion = an_arm(frozen, "champion", [0, 0, 0, 0, None, None])
    verdict = judge(champion, an_arm(frozen, "challenger", [ONE, 0, 0, ONE, 0, 0]), frozen, LOOSE, FIRST)
    assert verdict.mean_delta == 666_666
    assert [(each.template, each.instances, each.mean_delta) for each in verdict.strata] == [
        ("a", 3, 333_333),
        ("b", 1, ONE),
    ]
    assert verdict.challenger.mean_score == 666_666


def test_visible_results_are_reported_and_decide_nothing() -> None:
    frozen = benchmark(sealed=40, visible=2)
    champion, challenger = an_arm(frozen, "champion", [0] * 40), an_arm(frozen, "challenger", [ONE] * 40)
    seen = {place: Result(score, score == ONE, 1) for place, score in ((("t1", 1000, 0), ONE), (("t1", 1001, 0), HALF))}
    failed = {place: Result(0, passed=False, cost=1) for place in seen}
    found = judge(replace(champion, visible=seen), replace(challenger, visible=failed), frozen, Rules(), FIRST)
    assert found.visible is not None
    assert (found.visible.instances, found.visible.champion_mean, found.visible.challenger_mean) == (2, 750_000, 0)
    assert found.model_copy(update={"visible": None}) == judge(champion, challenger, frozen, Rules(), FIRST)


def test_mcnemar_is_said_of_one_repeat_alone() -> None:
    champion, challenger = [0] * 8 + [ONE] * 3, [ONE] * 8 + [0] * 2 + [ONE]
    verdict = judged(champion, challenger)
    theirs = 2 * reference.binom.cdf(2, 10, 0.5) - reference.binom.pmf(2, 10, 0.5)
    assert verdict.mcnemar == pytest.approx(theirs * 10**12, abs=1.01)
    assert judged([*champion, 0], [*challenger, 0], repeats=2).mcnemar is None


def test_many_sums_are_drawn_as_often_as_the_rules_say() -> None:
    stream = Random(1)  # noqa: S311 - sample data
    scores = [stream.randrange(HALF, ONE) for _ in range(60)]
    verdict = judged([score - 200_000 for score in scores], scores, Rules(max_exact=0))
    assert (verdict.draws, verdict.p_value) == (4_000, -(-(10**12) // 4_001))
    assert judged([0] * 60, scores, Rules(max_exact=0), spent=Alpha(1, 50_000, 50_000)).draws == 400


SCORES = st.sampled_from([0, 250_000, HALF, 560_000, ONE])
ARMS = st.integers(2, 8).flatmap(
    lambda tasks: st.tuples(*[st.lists(SCORES, min_size=2 * tasks, max_size=2 * tasks)] * 2)
)
BRIEF = settings(deadline=None, max_examples=50)


@BRIEF
@given(ARMS, st.randoms(use_true_random=False), st.sampled_from(["sign_flip", "e_process"]))
def test_the_order_of_tasks_and_of_results_changes_nothing(
    pair: tuple[list[int], list[int]], shuffle: Random, test: str
) -> None:
    champion, challenger, frozen = arms(*pair, repeats=2)
    rules = LOOSE.model_copy(update={"test": test, "max_exact": shuffle.choice([0, 10**6])})
    tasks, results = list(frozen.tasks), list(challenger.sealed.items())
    shuffle.shuffle(tasks)
    shuffle.shuffle(results)
    reordered = frozen.model_copy(update={"tasks": tuple(tasks)})
    again = judge(champion, replace(challenger, sealed=dict(results)), reordered, rules, FIRST)
    assert again == judge(champion, challenger, frozen, rules, FIRST)


@BRIEF
@given(ARMS)
def test_swapping_the_arms_swaps_what_is_said(pair: tuple[list[int], list[int]]) -> None:
    one, other = judged(*pair, repeats=2), judged(pair[1], pair[0], repeats=2)
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert one.p_value is not None
    assert other.p_value is not None
    assert one.p_value + other.p_value >= 10**12
    assert "promote" not in {one.decision} & {other.decision}
    assert one.champion.mean_score == other.challenger.mean_score
    assert judged(pair[0], pair[0], repeats=2).decision == "hold"


@BRIEF
@given(ARMS, st.data())
def test_losing_more_than_the_allowance_never_promotes(pair: tuple[list[int], list[int]], data: st.DataObject) -> None:
    planned = len(pair[0])
    lost = data.draw(st.sets(st.integers(0, planned - 1), min_size=planned // 20 + 1))
    champion = [None if index in lost else score for index, score in enumerate(pair[0])]
    assert judged(champion, pair[1], repeats=2).decision == "void"


@BRIEF
@given(ARMS, st.integers(0, 200_000))
def test_a_promotion_meets_every_rule(pair: tuple[list[int], list[int]], alpha: int) -> None:
    verdict = judged(*pair, repeats=2, spent=Alpha(1, alpha, alpha))
    assert verdict.p_value is not None
    assert verdict.mean_delta is not None
    meets = verdict.p_value <= alpha * ONE and verdict.mean_delta >= 20_000 and not verdict.regressions
    assert (verdict.decision == "promote") == (meets and len(verdict.confirmations) == len(verdict.screened))
