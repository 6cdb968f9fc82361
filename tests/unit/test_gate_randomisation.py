from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference  # type: ignore[import-untyped]

from gate.randomisation import sign_flip
from gate.strata import stratify

ALWAYS_EXACT = 10**9
VALUES = st.lists(st.integers(-30, 30), min_size=1, max_size=9)


def exact(values: list[int]) -> Fraction:
    found = sign_flip(values, 1, ALWAYS_EXACT, 0)
    assert found.draws is None
    return found.p


@given(VALUES)
def test_all_ways_of_signing_are_counted(values: list[int]) -> None:
    signed = [sum(sign * value for sign, value in zip(signs, values, strict=True)) for signs in ways(len(values))]
    assert exact(values) == Fraction(sum(each >= sum(values) for each in signed), len(signed))


def ways(count: int) -> list[tuple[int, ...]]:
    return list(product((-1, 1), repeat=count))


@given(st.lists(st.integers(-8, 8), min_size=2, max_size=9).filter(any))
def test_it_agrees_with_the_exact_permutation_test_of_scipy(values: list[int]) -> None:
    theirs = reference.permutation_test(
        (np.array(values, dtype=float),), np.sum, permutation_type="samples", alternative="greater", n_resamples=np.inf
    )
    assert float(exact(values)) == pytest.approx(theirs.pvalue, abs=1e-12)


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=400))
def test_of_scores_that_pass_or_fail_it_is_the_sign_test(values: list[int]) -> None:
    wins, losses = values.count(1), values.count(-1)
    theirs = reference.binom.sf(wins - 1, wins + losses, 0.5)
    assert float(exact(values)) == pytest.approx(theirs, abs=1e-12)


@given(VALUES, st.integers(1, 9), st.randoms(use_true_random=False))
def test_neither_the_unit_nor_the_order_nor_ties_change_it(values: list[int], unit: int, shuffle: Random) -> None:
    moved = [unit * value for value in (*values, 0, 0)]
    shuffle.shuffle(moved)
    assert exact(moved) == exact(values)


@given(VALUES)
def test_both_directions_share_the_chance_of_the_observed_sum(values: list[int]) -> None:
    signed = [sum(sign * value for sign, value in zip(signs, values, strict=True)) for signs in ways(len(values))]
    at_it = Fraction(signed.count(sum(values)), len(signed))
    assert exact(values) + exact([-value for value in values]) == 1 + at_it


def test_without_a_difference_nothing_is_shown() -> None:
    assert sign_flip([0, 0], 10, 100, 0) == sign_flip([], 10, 100, 0)
    assert sign_flip([0, 0], 10, 100, 0).p == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("reach", [1, 50])
def test_draws_agree_with_the_exact_chance_within_their_error(seed: int, reach: int) -> None:
    """Where differences are -1, 0 or 1, many draws are just as large as the observed sum, and those count."""
    stream = Random(seed)  # noqa: S311 - sample data
    values = [stream.randrange(-reach, reach + 1) for _ in range(60)]
    drawn, chance = sign_flip(values, 20_000, 0, seed), float(exact(values))
    assert drawn.draws == 20_000
    error = (chance * (1 - chance) / 20_000) ** 0.5
    assert float(drawn.p) == pytest.approx(chance, abs=4.5 * error + 1 / 20_000)


def test_the_observed_signs_count_as_one_draw() -> None:
    """Sixty wins can't be reached by chance: so p is 1 / (1 + B), never nought."""
    assert sign_flip([10**6 + index for index in range(60)], 999, 0, 0).p == Fraction(1, 1000)


def test_it_is_exact_up_to_the_bound_and_no_further() -> None:
    values = [3, -2, 1]
    assert sign_flip(values, 7, 18, 0).draws is None
    assert sign_flip(values, 7, 17, 0).draws == 7


def test_sums_beyond_64_bits_are_exact() -> None:
    """No two choices of signs bring these values to one sum; a multiple of them is too large for a word."""
    draw = Random(1)  # noqa: S311 - example data
    values = [draw.getrandbits(40) - 2**39 for _ in range(37)]
    large = [values[0] * 2**70 + 1, *(value * 2**70 for value in values[1:])]
    assert sign_flip(large, 400, 0, 5).p == sign_flip(values, 400, 0, 5).p


def test_the_stream_is_frozen() -> None:
    """These figures enter verdicts: they must never change, on any Python or numpy."""
    values = [index * 7919 % 1009 - 450 for index in range(37)]
    assert sign_flip(values, 4_000, 0, 5).p == Fraction(303, 4_001)


INSTANCES = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=4)),
    min_size=1,
    max_size=12,
)


@given(INSTANCES)
def test_templates_count_the_same_however_many_instances_they_have(instances: list[tuple[str, list[int]]]) -> None:
    by_template: dict[str, list[Fraction]] = {}
    for template, repeats in instances:
        by_template.setdefault(template, []).append(Fraction(sum(repeats), len(repeats)))
    means = [sum(each, Fraction(0)) / len(each) for each in by_template.values()]
    strata = stratify(instances)
    assert Fraction(sum(strata.flat), strata.scale) == sum(means) / len(means)
    assert strata.mean() == sum(means) / len(means) // 1
    assert strata.names == tuple(by_template)
    assert strata.means() == tuple(mean // 1 for mean in means)
