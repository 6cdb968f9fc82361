from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import BenchmarkFrozen, Rules
from gate.alpha import Alpha
from gate.arms import Arm, Place
from gate.eprocess import EProcessResult, evidence, stopped_at
from gate.judge import judge, screen
from gate.units import order
from tests.unit.test_gate_samples import an_arm, benchmark

ONE = 1_000_000
FIRST = Alpha(1, 5_000, 5_000)
EARLY = Rules(test="e_process", min_pairs=1, bootstrap_samples=50)
SHARES = [Fraction(share, 16) for share in range(1, 16)]


def in_order(
    frozen: BenchmarkFrozen, rules: Rules, champion: Sequence[int | None], challenger: Sequence[int | None]
) -> tuple[Arm, Arm]:
    """Arms whose scores are given in the order in which instances are looked at, one repeat each."""
    places: list[Place] = [(task.template, task.env_seed, 0) for task in frozen.tasks if task.is_sealed]
    at = {(task.template, task.env_seed, 0): index for index, task in enumerate(order(frozen, rules))}
    first = an_arm(frozen, "champion", [champion[at[place]] for place in places])
    return first, an_arm(frozen, "challenger", [challenger[at[place]] for place in places])


def wealth(deltas: Sequence[int]) -> Fraction:
    """What the gambler has without any rounding."""
    kept = [Fraction(1)] * len(SHARES)
    for delta in deltas:
        kept = [each * (1 + share * Fraction(delta, ONE)) for each, share in zip(kept, SHARES, strict=True)]
    return sum(kept, Fraction(0)) / len(SHARES)


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 9))
def test_every_sealed_instance_has_its_turn_and_templates_take_turns(sealed: int, templates: int, seed: int) -> None:
    frozen = benchmark(sealed, visible=2, templates=[f"t{number}" for number in range(templates)])
    rules = Rules(rng_seed=seed)
    found = order(frozen, rules)
    assert sorted(found, key=str) == sorted((task for task in frozen.tasks if task.is_sealed), key=str)
    for start in range(0, len(found), templates):
        assert len({task.template for task in found[start : start + templates]}) == templates
    shuffled = frozen.model_copy(update={"tasks": tuple(reversed(frozen.tasks))})
    assert order(shuffled, rules) == found


def test_the_order_is_frozen() -> None:
    """It enters verdicts: it must never change, on any Python."""
    frozen = benchmark(3, templates=("a", "b"))
    assert [(task.template, task.env_seed) for task in order(frozen, Rules(rng_seed=4))] == FROZEN


FROZEN = [("b", 2), ("a", 1), ("b", 1), ("a", 2), ("b", 0), ("a", 0)]

SCORES = st.lists(st.tuples(*[st.sampled_from([0, 300_000, ONE])] * 2), min_size=1, max_size=25)


@settings(deadline=None)
@given(SCORES)
def test_what_was_bet_is_rounded_down_and_by_nothing_much(scores: list[tuple[int, int]]) -> None:
    frozen = benchmark(len(scores))
    first, second = in_order(frozen, EARLY, *zip(*scores, strict=True))
    found = evidence(first, second, frozen, EARLY, Alpha(1, 1, 1))
    exact = wealth([b - a for a, b in scores[: found.looked_at]])
    assert 0 <= exact - found.e_value < Fraction(1, 10**9)


def test_it_stops_where_one_over_alpha_is_reached_and_what_comes_after_is_not_missing() -> None:
    frozen = benchmark(100)
    scores = [0] * 100, [ONE] * 12 + [None] * 88
    first, second = in_order(frozen, EARLY, *scores)
    stop = stopped_at(first, second, frozen, EARLY, FIRST)
    assert stop is not None
    assert wealth([ONE] * (stop - 1)) < 200 <= wealth([ONE] * stop)
    verdict = judge(first, second, frozen, EARLY, FIRST)
    assert (verdict.decision, verdict.looked_at, verdict.pairs, verdict.missing) == ("promote", stop, stop, 0)
    assert verdict.e_value == int(wealth([ONE] * stop) * ONE)
    assert verdict.p_value == -(-(10**12) * 1 // (wealth([ONE] * stop)))
    assert verdict.draws is None
    assert verdict.reasons[0].endswith(f"is at least 1 / 0.005 after {stop} instances")


def test_what_was_played_after_the_stop_changes_nothing() -> None:
    frozen = benchmark(60)
    before = in_order(frozen, EARLY, [0] * 60, [ONE] * 15 + [None] * 45)
    after = in_order(frozen, EARLY, [0] * 40 + [ONE] * 20, [ONE] * 15 + [0] * 45)
    assert judge(*before, frozen, EARLY, FIRST) == judge(*after, frozen, EARLY, FIRST)


def test_it_never_stops_before_enough_instances_were_compared() -> None:
    frozen, rules = benchmark(60), EARLY.model_copy(update={"min_pairs": 40})
    first, second = in_order(frozen, rules, [0] * 60, [None, *[ONE] * 59])
    assert stopped_at(first, second, frozen, rules, FIRST) == 41
    assert judge(first, second, frozen, rules, FIRST).pairs == 40


def test_it_does_not_stop_where_too_much_is_missing_so_far() -> None:
    """Two of the first forty are missing, which is a twentieth; one more of the first sixty is too many until then."""
    frozen = benchmark(80)
    scores: list[int | None] = [None, None, *[ONE] * 9, None, *[ONE] * 68]
    first, second = in_order(frozen, EARLY, [0] * 80, scores)
    assert stopped_at(first, second, frozen, EARLY, FIRST) == 60
    assert judge(first, second, frozen, EARLY, FIRST).decision == "promote"


def test_it_stops_where_one_over_alpha_is_out_of_reach_and_that_holds() -> None:
    frozen = benchmark(30)
    first, second = in_order(frozen, EARLY, [ONE] * 30, [0] * 30)
    stop = stopped_at(first, second, frozen, EARLY, FIRST)
    assert stop is not None
    assert stop < 30
    after, before = wealth([-ONE] * stop + [ONE] * (30 - stop)), wealth([-ONE] * (stop - 1) + [ONE] * (31 - stop))
    assert after < 200 <= before
    verdict = judge(first, second, frozen, EARLY, FIRST)
    assert (verdict.decision, verdict.looked_at) == ("hold", stop)
    assert screen(first, second, frozen, EARLY, FIRST) == ()


def test_it_goes_on_while_either_end_is_open() -> None:
    frozen = benchmark(30)
    first, second = in_order(frozen, EARLY, [0] * 30, [ONE, 0, ONE] + [None] * 27)
    assert stopped_at(first, second, frozen, EARLY, FIRST) is None
    verdict = judge(first, second, frozen, EARLY, FIRST)
    assert (verdict.decision, verdict.looked_at, verdict.missing) == ("void", 30, 27)


def test_nothing_is_promoted_where_there_is_no_alpha() -> None:
    frozen = benchmark(20)
    arms = in_order(frozen, EARLY, [0] * 20, [ONE] * 20)
    assert stopped_at(*arms, frozen, EARLY, Alpha(0, 0, 0)) == 1
    assert judge(*arms, frozen, EARLY, Alpha(0, 0, 0)).decision == "hold"


def test_losing_everything_is_no_evidence() -> None:
    assert EProcessResult(9, Fraction(0), is_stopped=False).p == 1


@pytest.mark.parametrize("chance", [0.2, 0.5, 0.8])
def test_where_the_arms_are_alike_it_is_seldom_fooled_however_often_one_looks(chance: float) -> None:
    """At alpha .1 a fair gambler gets there in at most a tenth of 600 evaluations: 90 would be five deviations off."""
    stream, frozen, alpha = Random(11), benchmark(40), Alpha(1, 100_000, 100_000)  # noqa: S311 - simulated
    reached = 0
    for _ in range(600):
        scores = [[ONE * (stream.random() < chance) for _ in range(40)] for _ in range(2)]
        found = evidence(*in_order(frozen, EARLY, *scores), frozen, EARLY, alpha)
        reached += found.p <= Fraction(1, 10)
    assert reached < 90
