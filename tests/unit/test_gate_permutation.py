from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference  # type: ignore[import-untyped]

from gate.permutation import divide, lower_tail

ONE = 1_000_000
PASSES = st.integers(1, 20).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs)))
SCORES = st.lists(st.sampled_from([0, 240_000, 500_000, 740_000, ONE]), min_size=1, max_size=5)


def passing(passed: int, runs: int) -> list[int]:
    return [ONE] * passed + [0] * (runs - passed)


@given(PASSES, PASSES)
def test_of_passes_it_is_fishers_test(champion: tuple[int, int], challenger: tuple[int, int]) -> None:
    table = [[passed, runs - passed] for passed, runs in (challenger, champion)]
    theirs = reference.fisher_exact(table, alternative="less").pvalue
    found = lower_tail([divide(passing(*champion), passing(*challenger))])
    assert float(found) == pytest.approx(theirs, abs=1e-12)


@settings(deadline=None)
@given(SCORES, SCORES)
def test_of_scores_it_counts_every_division(champion: list[int], challenger: list[int]) -> None:
    both = [*champion, *challenger]
    sums = [sum(both[i] for i in chosen) for chosen in combinations(range(len(both)), len(challenger))]
    share = sum(each <= sum(challenger) for each in sums) / len(sums)
    assert float(lower_tail([divide(champion, challenger)])) == pytest.approx(share, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(SCORES, SCORES, SCORES, SCORES)
def test_over_instances_every_pair_of_divisions_is_counted(
    a: list[int], b: list[int], c: list[int], d: list[int]
) -> None:
    def sums(first: list[int], second: list[int]) -> list[int]:
        both = [*first, *second]
        return [sum(both[i] for i in chosen) for chosen in combinations(range(len(both)), len(second))]

    each = [one + other for one in sums(a, b) for other in sums(c, d)]
    share = sum(total <= sum(b) + sum(d) for total in each) / len(each)
    assert float(lower_tail([divide(a, b), divide(c, d)])) == pytest.approx(share, abs=1e-12)


def test_no_run_shows_nothing() -> None:
    assert lower_tail([divide([], [])]) == 1
