"""Means and the paired bootstrap of the seed documents, in integers. Pure.

Values are millionths. Averages are kept exact over a common denominator and divided once, at the end: means and shares
round down, intervals round outwards. Rounding down never changes a comparison with a whole threshold: floor(x) >= t
exactly when x >= t.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from random import Random

from eventlog.events import Interval

from .errors import NoSamples

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Averages:
    """One exact average for each instance: `values[i] / scale` millionths."""

    values: tuple[int, ...]
    scale: int

    def mean(self) -> int:
        """Mean over instances in millionths, rounded down. Raises ZeroDivisionError if there are none."""
        return sum(self.values) // (self.scale * len(self.values))

    def share_at_least_zero(self) -> int:
        """The share of instances whose average is zero or more, in millionths, rounded down."""
        return MICRO * sum(value >= 0 for value in self.values) // len(self.values)

    def below(self, bound: int) -> tuple[int, ...]:
        """The indexes of instances whose average is below `bound` millionths, strictly."""
        return tuple(index for index, value in enumerate(self.values) if value < bound * self.scale)


@dataclass(frozen=True, slots=True)
class Resampled:
    """A bootstrapped mean difference in millionths: the share of resamples above zero, and a 95 % interval."""

    prob_improvement: int
    interval: Interval


def average_repeats(instances: Sequence[Sequence[int]]) -> Averages:
    """Average the repeats of each instance exactly. Instances have one or more repeats, possibly different numbers."""
    scale = lcm(*(len(repeats) for repeats in instances))
    return Averages(tuple(sum(repeats) * (scale // len(repeats)) for repeats in instances), scale)


def bootstrap(deltas: Averages, samples: int, seed: int) -> Resampled:
    """Resample instances with replacement from a frozen stream; return the probability of improvement and the interval.

    A resample whose sum is exactly zero counts against the challenger. If all deltas are identical the probability is
    1_000_000 if they are above zero, else 0. The interval is a percentile interval. Raises NoSamples.
    """
    if samples < 1:
        raise NoSamples(actual=samples, expected=1)
    sums = sorted(_resample_sums(deltas.values, samples, seed))
    is_flat = len(set(deltas.values)) == 1
    above = samples * (deltas.values[0] > 0) if is_flat else sum(total > 0 for total in sums)
    tail = samples * 25 // 1000
    denominator = deltas.scale * len(deltas.values)
    interval = Interval(low=sums[tail] // denominator, high=ceil_divide(sums[samples - 1 - tail], denominator))
    return Resampled(MICRO * above // samples, interval)


def _resample_sums(values: Sequence[int], samples: int, seed: int) -> Iterator[int]:
    """Sums of resamples. The draw is written out because `Random.randrange` may change between Python versions.

    An index is the top bits of one Mersenne Twister word, redrawn while it is too large, as in the seed documents.
    """
    draw, count = Random(seed).getrandbits, len(values)  # noqa: S311 - a frozen stream, not a secret
    width = count.bit_length()
    for _ in range(samples):
        total = 0
        for _ in range(count):
            index = draw(width)
            while index >= count:
                index = draw(width)
            total += values[index]
        yield total


def ceil_divide(numerator: int, denominator: int) -> int:
    """A quotient rounded up."""
    return -(-numerator // denominator)
