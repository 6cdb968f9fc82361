from __future__ import annotations

import time
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference  # type: ignore[import-untyped]

from gate.errors import NoSamples
from gate.stats import MICRO, average_repeats, bootstrap

DELTAS = st.lists(
    st.lists(st.integers(-MICRO, MICRO), min_size=1, max_size=4),
    min_size=1,
    max_size=12,
)


@given(DELTAS)
def test_repeats_are_averaged_inside_the_instance_and_instances_count_the_same(instances: list[list[int]]) -> None:
    exact = [Fraction(sum(repeats), len(repeats)) for repeats in instances]
    averages = average_repeats(instances)
    assert [Fraction(value, averages.scale) for value in averages.values] == exact
    assert averages.mean() == sum(exact) / len(exact) // 1
    assert averages.share_at_least_zero() == MICRO * sum(value >= 0 for value in exact) // len(exact)
    assert averages.below(-50_000) == tuple(index for index, value in enumerate(exact) if value < -50_000)


@given(DELTAS, st.integers(0, 9))
def test_a_bootstrap_is_a_function_of_deltas_and_seed(instances: list[list[int]], seed: int) -> None:
    first, second = (bootstrap(average_repeats(instances), 50, seed) for _ in range(2))
    assert first == second
    assert 0 <= first.prob_improvement <= MICRO
    lowest, highest = (pick(Fraction(sum(each), len(each)) for each in instances) for pick in (min, max))
    assert lowest // 1 <= first.interval.low <= first.interval.high <= -(-highest // 1)


@pytest.mark.parametrize(("delta", "probability"), [(1, MICRO), (0, 0), (-1, 0)])
def test_identical_deltas_have_no_doubt(delta: int, probability: int) -> None:
    resampled = bootstrap(average_repeats([[delta]] * 5), 20, 0)
    assert resampled.prob_improvement == probability
    assert (resampled.interval.low, resampled.interval.high) == (delta, delta)


def test_a_resample_of_zero_counts_against() -> None:
    resampled = bootstrap(average_repeats([[1], [-1]]), 4_000, 0)
    assert resampled.prob_improvement == pytest.approx(250_000, abs=20_000)


def test_the_stream_is_frozen() -> None:
    """These figures enter verdicts: they must never change, on any Python."""
    resampled = bootstrap(average_repeats([[300_000], [100_000, 400_001], [-100_000, 0, -9], [-600_000]]), 1_000, 7)
    assert (resampled.prob_improvement, resampled.interval.low, resampled.interval.high) == (460_000, -387_500, 275_001)


def test_no_samples_are_refused() -> None:
    with pytest.raises(NoSamples, match="0 bootstrap samples"):
        bootstrap(average_repeats([[1]]), 0, 0)


def test_the_interval_agrees_with_scipy() -> None:
    stream = Random(3)  # noqa: S311 - sample data
    deltas = [stream.randrange(-300_000, 500_000) for _ in range(40)]
    ours = bootstrap(average_repeats([[delta] for delta in deltas]), 5_000, 0).interval
    theirs = reference.bootstrap(
        (deltas,), lambda sample, axis: sample.mean(axis=axis), n_resamples=5_000, method="percentile", rng=1
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=10_000)
    assert ours.high == pytest.approx(theirs.high, abs=10_000)


def test_a_verdict_is_a_matter_of_milliseconds() -> None:
    deltas = average_repeats([[(-1) ** index * index * 1_000] for index in range(40)])
    began = time.perf_counter()
    bootstrap(deltas, 2_000, 0)
    assert time.perf_counter() - began < 0.5
