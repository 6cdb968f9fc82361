"""Numbers that the picture of a verdict shows. Pure.

Differences and means are in millionths, costs in micro-dollars. Only the null distribution is computed here; all other
numbers come from the verdict or from the recorded differences that it is based on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random

from eventlog.events import BenchmarkFrozen, Verdict

from .arms import Arm, PairedInstance, pairs
from .errors import NothingToDraw
from .stats import average_repeats
from .strata import stratify
from .units import order

DRAWS = 5_000
"""Number of sign flips of the drawn null distribution, independent of the number that the test used."""


@dataclass(frozen=True, slots=True)
class Dots:
    """One template: `counts` are pairs of a difference and the number of instances that have it."""

    template: str
    counts: tuple[tuple[int, int], ...]
    mean: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """One verdict to draw. `null` are the mean differences of the sealed instances under random sign flips.

    `missing` counts the run pairs that lack only the champion's run, and only the challenger's.
    """

    evaluation: str
    verdict: Verdict
    templates: tuple[Dots, ...]
    observed: int
    null: tuple[int, ...]
    missing: tuple[int, int]


def draw_verdict(
    evaluation: str,
    verdict: Verdict,
    champion: Arm,
    challenger: Arm,
    benchmark: BenchmarkFrozen,
    null: Sequence[int] | None = None,
) -> Drawing:
    """Compute the drawing of a verdict on these two arms. Raises NothingToDraw if they have no pair.

    `null` replaces the null distribution that is otherwise drawn here from `rules.rng_seed`.
    """
    rules = verdict.rules
    compared = pairs(champion, challenger, benchmark, order(benchmark, rules)[: verdict.looked_at])
    if not compared.instances:
        raise NothingToDraw(evaluation=evaluation, actual=verdict.decision)
    means = flipped_means(compared.instances, DRAWS, rules.rng_seed, by_template=rules.test != "bootstrap")
    return Drawing(
        evaluation=evaluation,
        verdict=verdict,
        templates=tuple(map(_dots, _group_by_template(compared.instances))),
        observed=0 if verdict.mean_delta is None else verdict.mean_delta,
        null=tuple(means if null is None else null),
        missing=(compared.champion_missing, compared.challenger_missing),
    )


def flipped_means(instances: Sequence[PairedInstance], draws: int, seed: int, *, by_template: bool) -> Iterator[int]:
    """Means in millionths with a random sign for each instance; templates or instances have equal weight.

    The random stream is frozen: one bit per instance, lowest bit first.
    """
    parts = stratify((each.template if by_template else "", each.deltas) for each in instances)
    draw, total = Random(seed).getrandbits, sum(parts.flat)  # noqa: S311 - a frozen stream, not a secret
    twice = [(1 << place, 2 * value) for place, value in enumerate(parts.flat) if value]
    for _ in range(draws):
        word = draw(len(parts.flat))
        yield (total - sum(value for bit, value in twice if word & bit)) // parts.scale


def _group_by_template(instances: Sequence[PairedInstance]) -> list[list[PairedInstance]]:
    return [list(own) for _, own in groupby(instances, key=lambda instance: instance.template)]


def _dots(own: Sequence[PairedInstance]) -> Dots:
    deltas = average_repeats([instance.deltas for instance in own])
    counts = Counter(value // deltas.scale for value in deltas.values)
    return Dots(own[0].template, tuple(sorted(counts.items())), deltas.mean())
