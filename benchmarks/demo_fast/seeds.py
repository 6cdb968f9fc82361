"""Intervals of success over seeds: a group's tasks meet at the same seeds, so their runs are not independent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import NormalDist, fmean
from typing import Final

from eventlog.events import Interval
from gate.intervals import resample, wilson
from gate.strata import stratify

from .playing import Outcome

MICRO: Final = 1_000_000
_SAMPLES: Final = 10_000


def success_by_seed(outcomes: Iterable[Outcome]) -> dict[int, list[bool]]:
    """Whether each run at a seed passed, over all tasks and both sites, in order of seeds."""
    runs: dict[int, list[bool]] = {}
    for outcome in sorted(outcomes, key=lambda each: each.seed):
        runs.setdefault(outcome.seed, []).append(outcome.passed)
    return runs


def seed_interval(outcomes: Sequence[Outcome]) -> Interval:
    """95 % interval of the mean success of a seed.

    Seeds are resampled by their averages. Where each seed has one run, or all have the same average and a resample
    would show no spread, it is Wilson's interval over the seeds.
    """
    runs = success_by_seed(outcomes)
    averages = [fmean(each) for each in runs.values()]
    if all(len(each) == 1 for each in runs.values()) or len(set(averages)) == 1:
        return wilson(round(sum(averages)), len(averages))
    units = stratify(("seeds", [MICRO * passed for passed in each]) for each in runs.values())
    return resample(units, _SAMPLES, seed=0).interval


def seed_difference(one: Sequence[Outcome], other: Sequence[Outcome], error: float) -> tuple[float, float]:
    """Newcombe's interval of the difference of two rates over seeds, with approximate error probability `error`.

    It takes both arms for independent. They meet the same seeds, so it is wider than it has to be.
    """
    z = NormalDist().inv_cdf(1 - error / 2)
    (p, low, high), (q, its_low, its_high) = _score(one, z), _score(other, z)
    return (
        p - q - sqrt((p - low) ** 2 + (its_high - q) ** 2),
        p - q + sqrt((high - p) ** 2 + (q - its_low) ** 2),
    )


def _score(outcomes: Sequence[Outcome], z: float) -> tuple[float, float, float]:
    averages = [fmean(each) for each in success_by_seed(outcomes).values()]
    rate, weight = fmean(averages), z * z / len(averages)
    centre = (rate + weight / 2) / (1 + weight)
    spread = z * sqrt(rate * (1 - rate) / len(averages) + weight / (4 * len(averages))) / (1 + weight)
    return rate, max(0.0, centre - spread), min(1.0, centre + spread)
