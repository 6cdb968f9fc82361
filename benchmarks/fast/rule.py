"""Simulates the promotion rule alone: adoption rates of pieces without an effect and with a gain of 0.3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eventlog.events import PairedRule

Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Result of a simulated rule: number of adopted pieces, total trials, and groups with at least one adopted."""

    repetitions: int
    adopted: int
    trials: int
    groups_with_adopted: int

    @property
    def mean_trials(self) -> float:
        """Average number of trials per repetition."""
        return self.trials / self.repetitions


def simulated(rule: PairedRule, base: float, treated: float, repetitions: int, seed: int) -> Simulated:
    """Simulate pieces with success rate `treated` against controls with rate `base`; not for rules of one control."""
    chances = np.full((repetitions, rule.looks[-1]), treated)
    return simulate_trials(rule, base, chances, np.random.RandomState(seed))


def simulate_trials(
    rule: PairedRule, base: float, treated: Rates, draws: np.random.RandomState, abreast: int = 1
) -> Simulated:
    """Simulate pieces, one a row, whose trials pass at the rates `treated` against controls with rate `base`.

    So many rows in turn are tried `abreast`: in each group beside the same controls.
    """
    runs, last = rule.controls + 1, rule.looks[-1]
    won = (draws.random_sample(treated.shape) < treated).astype(np.int64)
    shared = draws.binomial(rule.controls, base, (treated.shape[0] // abreast, last))
    s = won + np.repeat(shared, abreast, axis=0)
    u, v = np.cumsum(runs * won - s, axis=1), np.cumsum(s * (runs - s), axis=1)
    longest, e_values, futile = _longest(won), _e_values(rule, won, s), dict(rule.futile)
    is_open, adopted, trials = np.ones(len(treated), dtype=bool), np.zeros(len(treated), dtype=bool), 0
    for k in range(1, last + 1):
        now_u, now_v = u[:, k - 1], v[:, k - 1]
        meets = (now_u > 0) & (now_v >= rule.least_v) & (k * now_u**2 >= rule.bound * now_v) & (k in rule.looks)
        if rule.odds:
            meets |= e_values[:, k - 1] >= rule.e_value
        ends = is_open & meets & (longest[:, k - 1] >= rule.wins_in_a_row)
        adopted |= ends
        if k in futile:
            ends = ends | is_open & ((now_u <= 0) | (100 * now_u**2 < futile[k] * now_v))
        is_open &= ~ends
        trials += k * int(ends.sum())
    groups = int(adopted.reshape(-1, abreast).any(axis=1).sum())
    return Simulated(len(treated), int(adopted.sum()), trials + last * int(is_open.sum()), groups)


def _e_values(rule: PairedRule, won: Counts, s: Counts) -> Rates:
    """The e-value after each trial."""
    runs = rule.controls + 1
    total = np.zeros(won.shape)
    for odds in rule.odds:
        total += np.exp(np.cumsum(np.log(runs * np.where(won, odds, 1) / (runs + (odds - 1) * s)), axis=1))
    return total / max(1, len(rule.odds))


def _longest(won: Counts) -> Counts:
    """Longest winning streak up to each trial."""
    streak, longest = np.zeros(len(won), dtype=np.int64), np.zeros_like(won)
    best = streak.copy()
    for place in range(won.shape[1]):
        streak = (streak + 1) * won[:, place]
        best = np.maximum(best, streak)
        longest[:, place] = best
    return longest
