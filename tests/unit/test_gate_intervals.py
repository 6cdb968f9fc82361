from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference  # type: ignore[import-untyped]

from gate.errors import NoSamples
from gate.intervals import resample, wilson
from gate.stats import MICRO
from gate.strata import Strata, stratify


def drawn(sizes: list[int], seed: int, grid: int = 1) -> Strata:
    """Strata of these sizes with means apart, the values multiples of `grid`."""
    stream = Random(seed)  # noqa: S311 - sample data
    return stratify(
        (f"t{number}", [(stream.randrange(-400_000, 500_000) + 100_000 * number) // grid * grid])
        for number, size in enumerate(sizes)
        for _ in range(size)
    )


@pytest.mark.parametrize(("sizes", "grid"), [([60], 1), ([40, 60, 80], 1), ([50, 50], 100_000), ([300, 20], 1)])
def test_the_interval_agrees_with_scipy(sizes: list[int], grid: int) -> None:
    """Scipy draws n from n where we draw n - 1, so its intervals are narrower by a half to two in a hundred here."""
    strata = drawn(sizes, 3, grid)
    unit = strata.scale / len(strata.values)
    data = [np.array(values, dtype=float) * len(values) / unit for values in strata.values]

    def statistic(*samples: Any, axis: int) -> Any:
        return np.mean([sample.mean(axis=axis) for sample in samples], axis=0)

    ours = resample(strata, 8_000, 0).interval
    theirs = reference.bootstrap(
        data, statistic, n_resamples=8_000, method="percentile", vectorized=True, rng=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.05 * width)


def test_small_strata_vary_as_much_as_they_should() -> None:
    """Twelve strata of three: the width is that of the standard error with n - 1, where n would give 0.82 of it."""
    strata = drawn([3] * 12, 5)
    variance = sum(
        np.var(np.array(values, dtype=float) * 3 * 12 / strata.scale, ddof=1) / 3 for values in strata.values
    )
    error = float(variance) ** 0.5 / 12
    interval = resample(strata, 8_000, 0).interval
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.05)


def test_strata_of_one_instance_do_not_vary() -> None:
    interval = resample(stratify([("a", [100]), ("b", [301])]), 50, 0).interval
    assert (interval.low, interval.high) == (200, 201)


@pytest.mark.parametrize(("delta", "share"), [(1, MICRO), (0, 0), (-1, 0)])
def test_the_probability_of_improvement_is_the_share_above_zero(delta: int, share: int) -> None:
    assert resample(stratify([("a", [delta])] * 5), 20, 0).prob_improvement == share


def test_the_streams_are_frozen() -> None:
    """These figures enter verdicts: they must never change, on any Python or numpy: octets, octets of a grid, words."""
    found = [resample(drawn(*case), 400, 7) for case in (([30, 11, 1], 1, 1), ([30, 11], 1, 50_000), ([300], 1, 1))]
    assert [(each.prob_improvement, each.interval.low, each.interval.high) for each in found] == FROZEN


FROZEN = [(1000000, 41311, 167767), (742500, -59483, 124483), (1000000, 36035, 90101)]


def test_more_samples_than_a_block_are_as_many() -> None:
    strata = drawn([20, 20], 2)
    few, many = (resample(strata, samples, 0).interval for samples in (1_000, 2_500))
    assert few.low == pytest.approx(many.low, abs=0.1 * (many.high - many.low))


def test_no_samples_are_refused() -> None:
    with pytest.raises(NoSamples, match="0 bootstrap samples"):
        resample(drawn([4], 0), 0, 0)


@given(st.integers(0, 400).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_wilson_lies_around_the_share_and_inside_nought_and_one(counts: tuple[int, int]) -> None:
    passed, runs = counts
    interval = wilson(passed, runs)
    assert 0 <= interval.low <= interval.high <= MICRO
    if runs:
        assert interval.low * runs <= passed * MICRO <= interval.high * runs


@given(st.integers(1, 100_000).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_wilson_agrees_with_scipy(counts: tuple[int, int]) -> None:
    passed, runs = counts
    interval = wilson(passed, runs)
    theirs = reference.binomtest(passed, runs).proportion_ci(method="wilson")
    assert -0.01 <= theirs.low * MICRO - interval.low <= 1.01
    assert -0.01 <= interval.high - theirs.high * MICRO <= 1.01


def test_wilson_at_its_ends() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0, MICRO)
    assert wilson(0, 10).low == 0
    assert wilson(10, 10).high == MICRO
    with pytest.raises(ValueError, match="11 of 10"):
        wilson(11, 10)
