from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference  # type: ignore[import-untyped]

from gate.counts import floor_pico, mcnemar_mid_p, pico, sign_test
from gate.power import UNIT, normal, pairs_needed, power, quantile

COUNTS = st.tuples(st.integers(0, 200), st.integers(0, 200))


@given(COUNTS)
def test_the_sign_test_agrees_with_scipy(counts: tuple[int, int]) -> None:
    total = sum(counts)
    theirs = reference.binomtest(counts[0], total).pvalue if total else 1.0
    assert float(sign_test(*counts)) == pytest.approx(theirs, abs=1e-12)


@given(COUNTS)
def test_mid_p_is_the_exact_test_with_half_the_observed_chance(counts: tuple[int, int]) -> None:
    total, fewer = sum(counts), min(counts)
    theirs = 2 * reference.binom.cdf(fewer, total, 0.5) - reference.binom.pmf(fewer, total, 0.5)
    assert float(mcnemar_mid_p(*counts)) == pytest.approx(theirs, abs=1e-12)
    assert mcnemar_mid_p(*counts) == mcnemar_mid_p(*reversed(counts))


@given(st.fractions(0, 1))
def test_a_recorded_chance_is_rounded_up_and_a_recorded_bound_down(chance: Fraction) -> None:
    assert 0 <= Fraction(pico(chance), 10**12) - chance < Fraction(1, 10**12)
    assert 0 <= chance - Fraction(floor_pico(chance), 10**12) < Fraction(1, 10**12)


@given(st.floats(-7.9, 7.9))
def test_the_normal_distribution_agrees_with_scipy(z: float) -> None:
    assert normal(round(z * UNIT)) / UNIT == pytest.approx(reference.norm.cdf(z), abs=1e-15)


def test_the_normal_distribution_far_out() -> None:
    assert (normal(-9 * UNIT), normal(9 * UNIT)) == (0, UNIT)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 999_999))
def test_quantiles_agree_with_scipy(share: int) -> None:
    assert quantile(share) / UNIT == pytest.approx(reference.norm.ppf(share / 1e6), abs=1e-9)


def test_power_is_a_half_where_the_observed_difference_just_reaches_alpha() -> None:
    """Sixteen equal differences lie four deviations off; alpha is the chance of a normal beyond four."""
    assert power([1] * 16, 32) == pytest.approx(500_000, abs=2_000)
    assert power([1] * 16, 50_000) > power([1] * 16, 5_000) > power([1] * 8, 5_000)  # type: ignore[operator]


def test_as_many_pairs_as_are_needed_have_a_power_of_eighty_in_a_hundred() -> None:
    values = [3, -1, 2, 0, 1, -2, 4, 1]
    needed = pairs_needed(values, 5_000)
    assert needed is not None
    times = needed // len(values) + 1
    assert (power(values * (times - 1), 5_000) or 0) < 800_000 <= (power(values * times, 5_000) or 0)


@pytest.mark.parametrize("values", [[], [0, 0], [1, -2], [1, -1], [10**6, *[-1] * (10**6 - 1), 0]])
def test_where_the_challenger_is_not_better_no_number_of_pairs_is_enough(values: list[int]) -> None:
    assert pairs_needed(values, 5_000) is None


def test_without_alpha_or_a_difference_there_is_no_power() -> None:
    assert (power([1, 2], 0), power([0], 5_000), pairs_needed([1, 2], 0)) == (None, None, None)
