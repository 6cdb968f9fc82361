"""Paired differences on held-out instances, averaged over training seeds. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .stage import Outcomes

DRAWS = 4_000
_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference with its 95 % interval, and the difference of each training seed."""

    mean: float
    low: float
    high: float
    by_seed: tuple[float, ...]


def paired(before: Outcomes | Sequence[Outcomes], after: Sequence[Outcomes], rng_seed: int = 0) -> Difference:
    """Difference after minus before per instance, averaged over training seeds, with a bootstrap interval of instances.

    `before` is one outcome for all training seeds, or one for each. Sites are resampled separately, to keep their
    planned weights.
    """
    baselines = [before] * len(after) if isinstance(before, Mapping) else list(before)
    instances = sorted(after[0])
    units = {
        instance: sum(new[instance] - old[instance] for old, new in zip(baselines, after, strict=True)) / len(after)
        for instance in instances
    }
    draw = random.Random(rng_seed)  # noqa: S311 no secret
    by_site: dict[str, list[float]] = {}
    for (site, _), unit in units.items():
        by_site.setdefault(site, []).append(unit)
    means = sorted(
        sum(sum(draw.choices(own, k=len(own))) for own in by_site.values()) / len(units) for _ in range(DRAWS)
    )
    by_seed = tuple(
        sum(new[instance] - old[instance] for instance in instances) / len(instances)
        for old, new in zip(baselines, after, strict=True)
    )
    low, high = means[int(_TAIL * DRAWS)], means[int((1 - _TAIL) * DRAWS) - 1]
    return Difference(sum(units.values()) / len(units), low, high, by_seed)
