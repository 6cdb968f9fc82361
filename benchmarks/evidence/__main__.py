"""`make bench-evidence`: error rates, power and delays of the rules that promote, demote and allocate, simulated."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.fast.rule import Simulated, simulate_trials, simulated
from benchmarks.report import Target, at_least, at_most, report
from eventlog.events import PairedRule, Trials
from gate.intervals import wilson

from .allocating import PULLS, play_epsilon_greedy, play_forgetting
from .choosing import Told, promotes
from .selecting import read_promotions
from .withholding import watch

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "evidence.md"
BEFORE, PRESENT = PairedRule(), PairedRule.current()
MICRO = 1_000_000
ABREAST = 8
"""Instructions that go abreast in the simulated groups, as many as may in the loop."""


@dataclass
class Measured:
    """Figures, the 95 % intervals of some, and targets."""

    figures: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)

    def rate(self, name: str, count: int, of: int, target: Target | None = None) -> None:
        """Add a rate with its Wilson interval."""
        interval = wilson(count, of)
        self.add(name, count / of, (interval.low / MICRO, interval.high / MICRO), target)

    def mean(self, name: str, values: Sequence[float], target: Target | None = None) -> None:
        """Add a mean with its interval by the normal approximation."""
        mean, half = statistics.fmean(values), 1.96 * statistics.stdev(values) / sqrt(len(values))
        self.add(name, mean, (mean - half, mean + half), target)

    def median(self, name: str, values: Sequence[float], target: Target | None = None) -> None:
        """Add a median with its interval by order statistics."""
        ordered, half = sorted(values), 0.98 * sqrt(len(values))
        low, high = int(len(values) / 2 - half), min(len(values) - 1, int(len(values) / 2 + half))
        self.add(name, statistics.median(values), (ordered[max(0, low)], ordered[high]), target)

    def add(
        self, name: str, value: float, interval: tuple[float, float] | None = None, target: Target | None = None
    ) -> None:
        """Add a figure."""
        self.figures[name] = value
        if interval is not None:
            self.intervals[name] = interval
        if target is not None:
            self.targets[name] = target


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Simulate the rules in worlds whose truth is known."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    share = 20 if quick else 1
    found = Measured()
    _rewrites(found, 20_000 // share)
    _raced(found, 20_000 // share)
    _withheld(found, 400 // share)
    _allocated(found, 200 // share)
    _chosen(found, 4_000 // share)
    _selected(found, 40_000 // share)
    note = (
        f"{20_000 // share:,} repetitions for a rule, {400 // share:,} for a delay, {200 // share:,} for an allocator."
    )
    report(
        "evidence",
        found.figures,
        found.targets,
        intervals=found.intervals,
        page=PAGE if write else None,
        note=note,
    )


def _rewrites(found: Measured, repetitions: int) -> None:
    """Size of the rule without an effect and with one that is tied to the seed, power, and trials."""
    for name, rule in (("before", BEFORE), ("present", PRESENT)):
        for base in (0.1, 0.3, 0.5, 0.7):
            null = simulated(rule, base, base, repetitions, 1)
            target = at_most(0.01) if rule is PRESENT else None
            found.rate(f"{name} rule, does nothing at {base}: promoted", null.adopted, repetitions, target)
        for effect in (0.3, 0.5):
            tied = _tied_to_seeds(rule, effect, repetitions)
            target = at_most(0.01) if rule is PRESENT else None
            found.rate(
                f"{name} rule, ±{effect} by the seed, two tasks a seed: promoted", tied.adopted, repetitions, target
            )
        for base in (0.0, 0.1, 0.3, 0.5, 0.7):
            better = simulated(rule, base, base + 0.3, repetitions, 2)
            target = at_least(simulated(BEFORE, base, base + 0.3, repetitions, 3).adopted / repetitions)
            found.rate(
                f"{name} rule, +0.3 at {base}: promoted",
                better.adopted,
                repetitions,
                target if rule is PRESENT else None,
            )
            found.add(f"{name} rule, +0.3 at {base}: mean trials", better.mean_trials)
        found.add(
            f"{name} rule, does nothing at 0.5: mean trials", simulated(rule, 0.5, 0.5, repetitions, 1).mean_trials
        )
        sure = simulated(rule, 0.0, 1.0, 100, 4).mean_trials
        target = at_most(5) if rule is PRESENT else None
        found.add(f"{name} rule, always fails, always works: trials", sure, target=target)


def _raced(found: Measured, repetitions: int) -> None:
    """Instructions: the rule with the stricter futility stop, eight pieces in each group beside the same controls."""
    rule = PRESENT.with_early_stop()
    for base in (0.1, 0.3, 0.5, 0.7):
        chances = np.full((repetitions // ABREAST * ABREAST, rule.looks[-1]), base)
        null = simulate_trials(rule, base, chances, np.random.RandomState(8), ABREAST)
        found.rate(f"abreast, does nothing at {base}: promoted", null.adopted, null.repetitions, at_most(0.01))
        found.add(f"abreast, does nothing at {base}: mean trials", null.mean_trials)
        groups = null.repetitions // ABREAST
        found.rate(f"abreast, do nothing at {base}: one of eight promoted", null.groups_with_adopted, groups)
    for base, gain in ((0.3, 0.3), (0.3, 0.6), (0.0, 1.0)):
        chances = np.full((repetitions // ABREAST * ABREAST, rule.looks[-1]), base + gain)
        better = simulate_trials(rule, base, chances, np.random.RandomState(9), ABREAST)
        found.rate(f"abreast, +{gain} at {base}: promoted", better.adopted, better.repetitions)
        found.add(f"abreast, +{gain} at {base}: mean trials", better.mean_trials)


def _tied_to_seeds(rule: PairedRule, effect: float, repetitions: int) -> Simulated:
    """Pieces whose effect at a seed is plus or minus `effect`, the same in both tasks of the seed.

    The rule of before counts both tasks as trials; where the seed is the unit, one of them counts.
    """
    draws, last = np.random.RandomState(5), rule.looks[-1]
    tasks = 1 if rule.unit == "seed" else 2
    signs = draws.choice([-effect, effect], (repetitions, -(-last // tasks)))
    return simulate_trials(rule, 0.5, 0.5 + np.repeat(signs, tasks, axis=1)[:, :last], draws)


def _withheld(found: Measured, repetitions: int) -> None:
    for name, rule, shares in (("before", BEFORE, Trials()), ("present", PRESENT, Trials.current())):
        for harm in (0.2, 0.3):
            draws = np.random.RandomState(6)
            delays = [watch(rule, shares, 0.5, harm, draws) for _ in range(repetitions)]
            found.median(f"{name}, harm {harm}: withheld trials until demoted", [each.trials for each in delays])
            found.median(f"{name}, harm {harm}: groups until demoted", [each.groups for each in delays])
            found.mean(f"{name}, harm {harm}: others demoted meanwhile", [each.others for each in delays])


def _allocated(found: Measured, repetitions: int) -> None:
    quarter = PULLS // 4
    for name, play in (("epsilon-greedy, all runs", play_epsilon_greedy), ("discounted Thompson", play_forgetting)):
        courses = [play(seed) for seed in range(repetitions)]
        is_present = play is play_forgetting
        steady = [statistics.fmean(each[quarter : 2 * quarter]) for each in courses]
        late = [statistics.fmean(each[-quarter:]) for each in courses]
        found.mean(f"{name}: share of the best, before it turns bad", steady, at_least(0.95) if is_present else None)
        found.mean(f"{name}: share of the best, last quarter", late, at_least(0.61) if is_present else None)


def _chosen(found: Measured, repetitions: int) -> None:
    told: tuple[Told, ...] = ("figures", "bands", "decisions")
    for each in told:
        target = None if each == "figures" else at_most(0.05)
        count = promotes(each, repetitions, 7)
        found.rate(f"chooser told {each}: any of ten promoted that is no better", count, repetitions, target)


def _selected(found: Measured, repetitions: int) -> None:
    for gain in (0.1, 0.15, 0.3):
        observed, corrected = read_promotions(0.5, gain, 100, 0.005, repetitions)
        found.add(f"100 instances, +{gain}, promoted: observed difference", observed)
        found.add(f"100 instances, +{gain}, promoted: corrected difference", corrected)


if __name__ == "__main__":
    typer.run(main)
