"""Corrects an estimate for having been selected: what passed a bound looks better than it is. Pure.

An estimate that is only read if it is above a bound is, on average, too high (the winner's curse). The corrected one is
the conditional maximum likelihood estimate: the mean of a normal distribution that, cut off at the bound, has the
observed estimate as its mean (Zhong and Prentice, Biostatistics 9, 2008). It is never below zero. It is approximate: it
takes the estimate for normal and its standard error for known.
"""

from __future__ import annotations

from math import log, sqrt
from statistics import NormalDist
from typing import Final

from eventlog.events import Verdict
from projections.candidacy import Candidacy
from projections.evidence import Evidence, Paired, e_value

_NORMAL: Final = NormalDist()
_MICRO: Final = 1_000_000
_PICO: Final = 10**12
_STEPS: Final = 60
_FAR: Final = 8.0
"""Beyond eight standard errors above the bound nothing is cut off that matters."""


def correct_selection(z: float, bound: float) -> float:
    """The corrected value, at least 0, of an estimate `z` that is above `bound`, all in standard errors."""
    if z - bound > _FAR:
        return z
    low, high = 0.0, max(0.0, z)
    if _mean_above(low, bound) >= z:
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _mean_above(middle, bound) > z else (middle, high)
    return low


def _mean_above(mean: float, bound: float) -> float:
    """Mean of a normal distribution of this mean and variance 1 that is cut off below `bound`."""
    over = bound - mean
    tail = _NORMAL.cdf(-over)
    return mean + _NORMAL.pdf(over) / tail if tail > 0 else bound


def corrected_difference(verdict: Verdict) -> int | None:
    """The mean difference of a promotion, corrected for having been selected, in millionths.

    A promotion at an early look had to pass that look's boundary, which is narrower than the whole alpha. None if the
    verdict promotes nothing, or was not reached by a test at an alpha with an interval.
    """
    mean, interval = verdict.mean_delta, verdict.interval
    if verdict.decision != "promote" or mean is None or interval is None or not verdict.alpha:
        return None
    error = (interval.high - interval.low) / (2 * _NORMAL.inv_cdf(0.975))
    if error <= 0:
        return mean
    under_null = sqrt(error**2 + mean**2 / max(1, verdict.pairs))
    bound = max(_NORMAL.inv_cdf(1 - _alpha_reached(verdict)) * under_null, verdict.rules.min_mean_delta)
    return round(error * correct_selection(mean / error, min(bound, mean) / error))


def _alpha_reached(verdict: Verdict) -> float:
    """The probability that the deciding look could spend at most: that of its boundary, else the whole alpha."""
    if not verdict.looks or not verdict.looks[-1].boundary:
        return verdict.alpha / _MICRO
    return verdict.looks[-1].boundary / _PICO


def corrected_uplift(state: Candidacy) -> int | None:
    """How much more often runs with a piece pass, corrected for its promotion, in millionths.

    None if no paired evidence with several controls promoted it.
    """
    rule, found = state.rule, state.treated
    was_promoted = state.status in {"promoted", "demoted"}
    if not was_promoted or not isinstance(rule, Paired) or rule.controls < 2 or not found.v or not found.k:  # noqa: PLR2004 a pair has a table of its own
        return None
    z = found.u / sqrt(found.v)
    bound = sqrt(_least(rule, found))
    return round(_MICRO * correct_selection(z, min(bound, z)) * sqrt(found.v) / (rule.controls * found.k))


def _least(rule: Paired, found: Evidence) -> float:
    """The square of the standard errors at which the piece was promoted at the earliest: at a look, or by the lane."""
    if found.k in rule.looks and found.k * found.u**2 >= rule.bound * found.v:
        return rule.bound / found.k
    return 2 * log(max(1.0, float(e_value(found, rule)))) if rule.odds else rule.bound / found.k
