from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.rewards import (
    DEFAULT_LAMBDA,
    DEFAULT_PRICES,
    REWARD_VERSION,
    SHAPING_VERSION,
    Conduct,
    compute_reward,
    conduct_of,
    cost_of,
    penalty_of,
)
from eventlog.events import RewardGraded, Usage
from projections.costs import PriceBook
from tests.unit.test_agent_samples import BOOK

MICRO = 1_000_000
COUNTS = st.integers(0, 10**9)
USAGES = st.builds(Usage, actions=COUNTS, wall_microseconds=COUNTS, input_tokens=COUNTS, output_tokens=COUNTS)
PARTS = ("actions", "wall_microseconds", "input_tokens", "output_tokens")


def usage(**changes: int | None) -> Usage:
    return Usage.model_validate(
        {"actions": 11, "wall_microseconds": 2_500_000, "input_tokens": 0, "output_tokens": 0} | changes
    )


def reward(score: int, used: Usage, *, lambda_per_dollar: int = DEFAULT_LAMBDA, book: PriceBook = BOOK) -> RewardGraded:
    return compute_reward(
        "r", "g", score, ("why",), used, book, passed=score == MICRO, conduct=None, lambda_per_dollar=lambda_per_dollar
    )


def test_a_reward_is_the_score_less_what_the_run_cost() -> None:
    found = reward(MICRO, usage(input_tokens=100_000, output_tokens=10_000))
    assert found.cost == 11 * 200 + 2 * 30 + 15 + 300_000 + 150_000
    assert found.terms.penalty == found.cost // 10
    assert found.value == MICRO - found.cost // 10
    assert (found.terms.score, found.terms.lambda_per_dollar, found.score) == (MICRO, 100_000, MICRO)
    assert (found.channel, found.version, found.prices, found.reasons) == ("oracle", REWARD_VERSION, 1, ("why",))


def test_a_dollar_is_worth_a_tenth_of_a_score() -> None:
    assert penalty_of(MICRO, DEFAULT_LAMBDA) == 100_000
    assert DEFAULT_PRICES.per_action == BOOK.per_action


@pytest.mark.parametrize("part", PARTS)
def test_a_usage_that_is_not_known_makes_cost_and_value_unknown_and_never_zero(part: str) -> None:
    found = reward(MICRO, usage(**{part: None}))
    assert (found.cost, found.terms.penalty, found.value) == (None, None, None)
    assert (found.score, found.passed) == (MICRO, True)


def test_what_was_used_for_nothing_costs_nothing() -> None:
    found = reward(MICRO, usage(actions=0, wall_microseconds=0))
    assert (found.cost, found.value) == (0, MICRO)


def test_a_failed_run_that_cost_something_is_worth_less_than_nothing() -> None:
    found = reward(0, usage(actions=10_000))
    assert found.value is not None
    assert found.value < 0


@given(USAGES, st.sampled_from(PARTS), COUNTS)
def test_using_more_never_costs_less(used: Usage, part: str, more: int) -> None:
    larger = used.model_copy(update={part: getattr(used, part) + more})
    before, after = cost_of(used, BOOK), cost_of(larger, BOOK)
    assert before is not None
    assert after is not None
    assert 0 <= before <= after


@given(USAGES, st.integers(0, MICRO), st.integers(0, MICRO), st.integers(0, MICRO), st.integers(0, MICRO))
def test_a_reward_rises_with_the_score_and_falls_with_lambda(
    used: Usage, score: int, more: int, weight: int, heavier: int
) -> None:
    low, high = sorted([score, more])
    light, heavy = sorted([weight, heavier])
    values = [
        reward(each, used, lambda_per_dollar=each_weight).value
        for each, each_weight in ((low, heavy), (low, light), (high, light))
    ]
    assert all(isinstance(value, int) for value in values)
    assert values == sorted(value for value in values if value is not None)


@given(USAGES, st.integers(0, MICRO))
def test_the_terms_add_up(used: Usage, score: int) -> None:
    found = reward(score, used)
    assert found.terms.penalty is not None
    assert found.value == score - found.terms.penalty


def shaped_reward(conduct: Conduct | None, *, passed: bool, **used: int | None) -> RewardGraded:
    score = MICRO if passed else 400_000
    return compute_reward("r", "g", score, (), usage(**used), BOOK, passed=passed, conduct=conduct)


def test_a_reward_carries_its_shaped_return_with_its_terms() -> None:
    conduct = conduct_of(["ok", "ok", "not_found"], usage(), planned=11, max_steps=40)
    assert conduct == Conduct(effort=11, succeeded=2, taken=3, planned=11, max_steps=40)
    failed = shaped_reward(conduct, passed=False)
    process, progress = MICRO * 33 // 44, MICRO * 2 // 11
    assert (failed.terms.process, failed.terms.progress, failed.shaping) == (process, progress, SHAPING_VERSION)
    assert failed.terms.penalty is not None
    assert failed.shaped == 400_000 + progress // 2 + process * progress // (4 * MICRO) - failed.terms.penalty
    passed = shaped_reward(conduct, passed=True)
    assert passed.terms.penalty is not None
    assert (passed.terms.progress, passed.shaped) == (MICRO, 2_500_000 + process // 4 - passed.terms.penalty)


def test_what_is_not_known_of_a_run_is_not_shaped_and_never_zero() -> None:
    bare = shaped_reward(None, passed=True)
    assert (bare.shaping, bare.shaped, bare.terms.process, bare.terms.progress) == (None, None, None, None)
    conduct = conduct_of(["ok"], usage(actions=None), planned=1, max_steps=40)
    assert conduct.effort == 1
    uncounted = shaped_reward(conduct, passed=True, actions=None)
    assert (uncounted.shaping, uncounted.shaped, uncounted.terms.progress) == (SHAPING_VERSION, None, MICRO)
