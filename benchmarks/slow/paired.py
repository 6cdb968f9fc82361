"""Paired differences on held-out instances, with training seeds as the unit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import mean, stdev

from scipy import stats  # type: ignore[import-untyped]

from .stage import Outcomes

_UPPER = 0.975


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference with its 95 % interval, and the difference of each training seed."""

    mean: float
    low: float
    high: float
    by_seed: tuple[float, ...]


def paired(before: Outcomes | Sequence[Outcomes], after: Sequence[Outcomes]) -> Difference:
    """Difference after minus before, averaged over instances; the interval is Student's t over the training seeds.

    `before` is one outcome for all training seeds, or one for each. One seed alone has no interval (NaN). What is
    claimed is of another training, and instances say nothing of how trainings differ.
    """
    baselines = [before] * len(after) if isinstance(before, Mapping) else list(before)
    by_seed = tuple(
        mean(new[instance] - old[instance] for instance in new) for old, new in zip(baselines, after, strict=True)
    )
    middle, count = mean(by_seed), len(by_seed)
    half = float(stats.t.ppf(_UPPER, count - 1)) * stdev(by_seed) / sqrt(count) if count > 1 else nan
    return Difference(middle, middle - half, middle + half, by_seed)
