"""Differences of two arms, with intervals that resample training seeds and instances alike. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .stage import Outcomes

DRAWS: Final = 4_000
_TAIL: Final = 0.025


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference with its 95 % interval, and the difference of each training seed."""

    mean: float
    low: float
    high: float
    by_seed: tuple[float, ...]


def two_way(before: Sequence[Outcomes], after: Sequence[Outcomes], rng_seed: int = 0) -> Difference:
    """Difference after minus before, by training seed and instance; both are drawn again with replacement.

    Instances that an arm has no outcome of are left out of all. Arms without a training seed, such as the base, are
    given once for each. With few training seeds such an interval is too narrow (Owen 2007 on the pigeonhole bootstrap),
    so the difference of each seed belongs beside it.
    """
    instances = sorted(set.intersection(*(set(each) for each in (*before, *after))))
    if not instances:
        raise ValueError("no instance has an outcome in every arm; expected one at least")
    units = [[new[instance] - old[instance] for instance in instances] for old, new in zip(before, after, strict=True)]
    draw = random.Random(rng_seed)  # noqa: S311 no secret
    numbers = range(len(instances))
    means = sorted(
        _mean_of(draw.choices(units, k=len(units)), draw.choices(numbers, k=len(numbers))) for _ in range(DRAWS)
    )
    by_seed = tuple(sum(own) / len(own) for own in units)
    mean = sum(by_seed) / len(by_seed)
    return Difference(mean, means[int(_TAIL * DRAWS)], means[int((1 - _TAIL) * DRAWS) - 1], by_seed)


def _mean_of(units: Sequence[Sequence[float]], chosen: Sequence[int]) -> float:
    return sum(own[number] for own in units for number in chosen) / (len(units) * len(chosen))
