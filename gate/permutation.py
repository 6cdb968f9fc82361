"""Exact permutation tests of the scores of two arms, alone and over several instances. Pure, in integers.

If the arms do not differ, the results of an instance fall to the two arms in any way alike. Scores are rounded to
fiftieths, which leaves the test exact; with scores of 0 and 1 alone it is Fisher's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, prod

import numpy as np

from .stats import MICRO

_GRID = MICRO // 50
_SAFE = 60
"""As many results are divided in fewer than 2^62 ways."""

_REMEMBERED = 4_096


@dataclass(frozen=True, slots=True)
class Division:
    """Number of ways to deal the results of one instance to the second arm, by its sum; and the `observed` sum."""

    ways: tuple[int, ...]
    observed: int


def divide(first: Sequence[int], second: Sequence[int]) -> Division:
    """Every division of these scores (in millionths) into arms of the same sizes."""
    own = tuple(sorted(round_score(score) for score in second))
    return Division(_ways(tuple(sorted((*map(round_score, first), *own))), len(second)), sum(own))


def round_score(score: int) -> int:
    """A score in fiftieths, halves upwards."""
    return (score + _GRID // 2) // _GRID


@lru_cache(_REMEMBERED)
def _ways(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Number of subsets of `size` values with each sum."""
    ways = np.zeros((size + 1, sum(values) + 1), dtype=np.int64 if len(values) <= _SAFE else object)
    ways[0, 0] = 1
    for value in values:
        ways[1:, value:] += ways[:-1, : ways.shape[1] - value].copy()
    return tuple(map(int, ways[size]))


def lower_tail(divisions: Sequence[Division]) -> Fraction:
    """Probability that the second arm's total is as low as the observed one, if the arms of each instance are alike."""
    if len(divisions) == 1:
        return _lower_tail(divisions[0].ways, divisions[0].observed)
    observed = sum(division.observed for division in divisions)
    step = gcd(*(place for division in divisions for place, ways in enumerate(division.ways) if ways)) or 1
    total = prod(sum(division.ways) for division in divisions)
    lane = total.bit_length() + 1
    product = _multiply(
        [
            sum(ways << (place // step * lane) for place, ways in enumerate(division.ways) if ways)
            for division in divisions
        ]
    )
    kept = product & ((1 << ((observed // step + 1) * lane)) - 1)
    return Fraction(kept % ((1 << lane) - 1), total)


def _multiply(factors: Sequence[int]) -> int:
    """Product of large numbers, halves first: twice as fast as one after the other (50 instances of 24 runs)."""
    if len(factors) == 1:
        return factors[0]
    middle = len(factors) // 2
    return _multiply(factors[:middle]) * _multiply(factors[middle:])


@lru_cache(_REMEMBERED)
def _lower_tail(ways: tuple[int, ...], observed: int) -> Fraction:
    return Fraction(sum(ways[: observed + 1]), sum(ways))
