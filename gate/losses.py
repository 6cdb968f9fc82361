"""The charge for lost runs in the test: a challenger gains nothing by losing runs that it would fail. Pure.

A lost run is played again, so an arm that loses runs it would fail gets further tries of them. The test is therefore
made twice, and both have to reject: once of the results as they are, and once with every place that lost a run charged
to its arm. The charge is the mean score of both arms, over the share of places at which the champion lost none: about
what a further try gains. Losses of the platform hit both arms alike and cancel, except for their noise, which the signs
of the charged test have as well. So it is the challenger's losses in excess of the champion's that count against it.

A bet of an e-process and a fresh repeat know no charge: there a place that lost a run counts once more as failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np

from eventlog.events import BenchmarkFrozen, BenchmarkTask, Rules

from .arms import Arm, Pairs, Place, Result, pairs
from .exact import Array
from .randomisation import draw_sums
from .stats import MICRO, ceil_divide
from .units import unit_key

Unit = tuple[str, int]
FAILED = Result(0, passed=False, cost=None)


@dataclass(frozen=True, slots=True)
class Charged:
    """Sum of differences of each unit, and lost places of the challenger less the champion's, on one scale."""

    differences: Mapping[Unit, int]
    surplus: Mapping[Unit, int]

    def value_at(self, unit: Unit, charge: int) -> int:
        """The difference of a unit less the charge, in millionths, for each place that its challenger lost."""
        return self.differences[unit] - charge * self.surplus[unit]

    def sum_at(self, units: Iterable[Unit], charge: int) -> int:
        """The sum of these units with this charge."""
        return sum(self.value_at(unit, charge) for unit in units)


@dataclass(frozen=True, slots=True)
class SignSums:
    """Sums over all units so far with drawn signs: of differences, and of the surplus with the same signs."""

    differences: Array
    surplus: Array

    @classmethod
    def start(cls, draws: int) -> SignSums:
        """Before any unit."""
        return cls(np.zeros(draws, dtype=np.int64), np.zeros(draws, dtype=np.int64))

    def after(self, charged: Charged, units: Sequence[Unit], seed: int) -> SignSums:
        """With the signs of further units drawn."""
        if not units:
            return self
        draws = len(self.differences)
        return SignSums(
            self.differences + draw_sums([charged.differences[unit] for unit in units], draws, seed),
            self.surplus + draw_sums([charged.surplus[unit] for unit in units], draws, seed),
        )

    def at(self, charge: int) -> Array:
        """The sums with this charge."""
        sums: Array = self.differences - charge * self.surplus
        return sums


def has_losses(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, tasks: Iterable[BenchmarkTask]) -> bool:
    """True if an arm lost a run of these tasks."""
    lost = champion.lost.keys() | challenger.lost.keys()
    return bool(lost) and any(place in lost for task in tasks for place in _places(task, benchmark))


def charged_units(
    champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, tasks: Sequence[BenchmarkTask], rules: Rules
) -> Charged:
    """Differences and surplus of the units of these tasks; instances without a pair have a surplus alone."""
    found = {
        (each.template, each.env_seed): each.deltas for each in pairs(champion, challenger, benchmark, tasks).instances
    }
    scale = lcm(benchmark.repeats, *map(len, found.values()))
    differences, surplus = dict[Unit, int](), dict[Unit, int]()
    for task in tasks:
        unit, deltas = unit_key(task, rules), found.get((task.template, task.env_seed), (0,))
        places = _places(task, benchmark)
        lost = sum((place in challenger.lost) - (place in champion.lost) for place in places)
        differences[unit] = differences.get(unit, 0) + sum(deltas) * (scale // len(deltas))
        surplus[unit] = surplus.get(unit, 0) + lost * (scale // benchmark.repeats)
    return Charged(differences, surplus)


def charge_of(compared: Pairs, champion: Arm, benchmark: BenchmarkFrozen, tasks: Sequence[BenchmarkTask]) -> int:
    """Charge to the arm of a place that lost a run, in millionths: at most a whole score, and that without any pair."""
    scores = [result.score for each in compared.instances for result in (*each.champion, *each.challenger)]
    places = [place for task in tasks for place in _places(task, benchmark)]
    unlost = sum(place not in champion.lost for place in places)
    if not scores or not unlost:
        return MICRO
    return min(MICRO, ceil_divide(sum(scores) * len(places), len(scores) * unlost))


def count_lost_as_failed(arm: Arm) -> Arm:
    """The arm with a failed sealed result at every place that lost a run."""
    return replace(arm, sealed={**arm.sealed, **dict.fromkeys(arm.lost, FAILED)})


def _places(task: BenchmarkTask, benchmark: BenchmarkFrozen) -> list[Place]:
    return [(task.template, task.env_seed, repeat) for repeat in range(benchmark.repeats)]
