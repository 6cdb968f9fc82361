"""Figures of a verdict that are reported but do not decide it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eventlog.events import BenchmarkFrozen, Interval, Rules, Stratum, Visible

from .arms import Arm, PairedInstance, pairs
from .counts import mcnemar_mid_p, pico
from .intervals import resample
from .power import pairs_needed, power
from .stats import MICRO
from .strata import Strata, stratify


@dataclass(frozen=True, slots=True)
class Reported:
    """Fields of a verdict that do not decide it, under the same names."""

    interval: Interval | None = None
    prob_improvement: int | None = None
    win_rate: int | None = None
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    mcnemar: int | None = None
    power: int | None = None
    pairs_needed: int | None = None
    strata: tuple[Stratum, ...] = ()


def report_figures(
    instances: Sequence[PairedInstance],
    strata: Strata | None,
    units: Strata | None,
    benchmark: BenchmarkFrozen,
    rules: Rules,
    alpha: int,
) -> Reported:
    """Figures over the compared instances; empty without instances. A tie is not a win. Raises NoSamples.

    The interval and the power are over `units`, which are seeds where templates share them.
    """
    if strata is None or units is None:
        return Reported()
    drawn = resample(units, rules.bootstrap_samples, rules.rng_seed)
    values = strata.flat
    wins, losses = sum(value > 0 for value in values), sum(value < 0 for value in values)
    return Reported(
        interval=drawn.interval,
        prob_improvement=drawn.prob_improvement,
        win_rate=MICRO * wins // len(values),
        wins=wins,
        ties=len(values) - wins - losses,
        losses=losses,
        mcnemar=_mcnemar(instances) if benchmark.repeats == 1 else None,
        power=power(units.flat, alpha),
        pairs_needed=pairs_needed(units.flat, alpha),
        strata=tuple(
            Stratum(template=name, instances=len(stratum), mean_delta=mean)
            for name, stratum, mean in zip(strata.names, strata.values, strata.means(), strict=True)
        ),
    )


def _mcnemar(instances: Sequence[PairedInstance]) -> int:
    """McNemar's p over the pairs that one arm passed and the other failed; each instance has one pair."""
    both = [(each.champion[0].passed, each.challenger[0].passed) for each in instances]
    return pico(mcnemar_mid_p(both.count((False, True)), both.count((True, False))))


def visible(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen) -> Visible | None:
    """Summary of the visible pairs; None if there are none."""
    found = pairs(champion, challenger, benchmark, [task for task in benchmark.tasks if not task.is_sealed]).instances
    if not found:
        return None
    first = stratify((each.template, [result.score for result in each.champion]) for each in found)
    second = stratify((each.template, [result.score for result in each.challenger]) for each in found)
    return Visible(instances=len(found), champion_mean=first.mean(), challenger_mean=second.mean())
