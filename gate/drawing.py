"""What the picture of a verdict shows, as numbers. Pure.

Differences and means are in millionths, costs in micro-dollars. Only the null distribution is made here; every other
number is the verdict's own, or one of the recorded differences it rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import lcm
from random import Random

from eventlog.events import BenchmarkFrozen, Verdict

from .arms import Arm, PairedInstance, pairs
from .errors import NothingToDraw
from .stats import Averages, averaged

DRAWS = 5_000
"""How many sign flips the null distribution is drawn with: enough for the eye, whatever the test took."""


@dataclass(frozen=True, slots=True)
class Dots:
    """One template: its instances by their difference, each difference with how many have it, and the mean."""

    template: str
    counts: tuple[tuple[int, int], ...]
    mean: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """One verdict to draw. `null` are the means that the sealed instances would have with signs flipped at random.

    `missing` counts the sealed runs that champion and challenger lack.
    """

    evaluation: str
    verdict: Verdict
    templates: tuple[Dots, ...]
    observed: int
    null: tuple[int, ...]
    missing: tuple[int, int]


def drawn(
    evaluation: str,
    verdict: Verdict,
    champion: Arm,
    challenger: Arm,
    benchmark: BenchmarkFrozen,
    null: Sequence[int] | None = None,
) -> Drawing:
    """The drawing of a verdict on these two arms. Raises NothingToDraw where they have no pair.

    `null` are means to show in place of those that are drawn here, from the stream of the rules' own seed.
    """
    instances = pairs(champion, challenger, benchmark).instances
    if not instances:
        raise NothingToDraw(evaluation=evaluation, actual=verdict.decision)
    rules = verdict.rules
    parts = _alike(instances) if rules.test == "bootstrap" else _by_template(instances)
    return Drawing(
        evaluation=evaluation,
        verdict=verdict,
        templates=tuple(map(_dots, _grouped(instances))),
        observed=0 if verdict.mean_delta is None else verdict.mean_delta,
        null=tuple(flipped_means(parts, DRAWS, rules.rng_seed) if null is None else null),
        missing=(_missing(champion, benchmark), _missing(challenger, benchmark)),
    )


def flipped_means(parts: Averages, draws: int, seed: int) -> Iterator[int]:
    """Means in millionths with signs flipped at random: one bit a part of a frozen stream, the first part lowest.

    The mean is the sum of the parts over their scale.
    """
    draw, count, total = Random(seed).getrandbits, len(parts.values), sum(parts.values)  # noqa: S311 - a frozen stream, not a secret
    twice = [(1 << place, 2 * value) for place, value in enumerate(parts.values) if value]
    for _ in range(draws):
        word = draw(count)
        yield (total - sum(value for bit, value in twice if word & bit)) // parts.scale


def _alike(instances: Sequence[PairedInstance]) -> Averages:
    """What each instance adds to the mean where all weigh the same."""
    deltas = averaged([instance.deltas for instance in instances])
    return Averages(deltas.values, deltas.scale * len(instances))


def _by_template(instances: Sequence[PairedInstance]) -> Averages:
    """What each instance adds to the mean where all templates weigh the same."""
    groups = [_alike(own) for own in _grouped(instances)]
    scale = lcm(*(group.scale for group in groups))
    values = tuple(value * (scale // group.scale) for group in groups for value in group.values)
    return Averages(values, scale * len(groups))


def _grouped(instances: Sequence[PairedInstance]) -> list[list[PairedInstance]]:
    return [list(own) for _, own in groupby(instances, key=lambda instance: instance.template)]


def _dots(own: Sequence[PairedInstance]) -> Dots:
    deltas = averaged([instance.deltas for instance in own])
    counts = Counter(value // deltas.scale for value in deltas.values)
    return Dots(own[0].template, tuple(sorted(counts.items())), deltas.mean())


def _missing(arm: Arm, benchmark: BenchmarkFrozen) -> int:
    sealed = {(task.template, task.env_seed) for task in benchmark.tasks if task.is_sealed}
    return sum((template, seed) in sealed for template, seed, _repeat in arm.missing)
