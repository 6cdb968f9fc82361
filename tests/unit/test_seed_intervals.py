"""Intervals of the slow loop's demonstration: a training seed is a unit, and more instances make none narrower."""

from __future__ import annotations

from math import isnan

import pytest

from benchmarks.slow.paired import paired


def outcomes(passed: int, of: int) -> dict[tuple[str, int], float]:
    return {("shop", number): float(number < passed) for number in range(of)}


def test_the_interval_is_over_training_seeds_and_does_not_shrink_with_instances() -> None:
    few = paired(outcomes(0, 12), [outcomes(gain, 12) for gain in (1, 2, 3)])
    many = paired(outcomes(0, 1200), [outcomes(gain * 100, 1200) for gain in (1, 2, 3)])
    assert few.by_seed == pytest.approx((1 / 12, 2 / 12, 3 / 12))
    assert (few.low, few.high) == pytest.approx((many.low, many.high))
    assert (few.high - few.low) / 2 == pytest.approx(4.302653 / 12 / 3**0.5, rel=1e-6)  # t with 2 degrees of freedom


def test_arms_of_one_seed_are_paired_and_one_seed_says_nothing_of_others() -> None:
    arm, other = [outcomes(gain, 12) for gain in (2, 5, 8)], [outcomes(gain, 12) for gain in (1, 4, 7)]
    assert paired(other, arm).low == pytest.approx(1 / 12)
    assert isnan(paired(other[0], arm[:1]).low)
