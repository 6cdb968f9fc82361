"""Simulates the promotion rule alone: adoption rates of pieces without an effect and with a gain of 0.3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eventlog.events import PairedRule

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Result of a simulated rule: number of adopted pieces, and total number of trials."""

    repetitions: int
    adopted: int
    trials: int

    @property
    def mean_trials(self) -> float:
        """Average number of trials per repetition."""
        return self.trials / self.repetitions


def simulated(rule: PairedRule, base: float, treated: float, repetitions: int, seed: int) -> Simulated:
    """Simulate pieces with success rate `treated` against controls with rate `base`; not for rules of one control."""
    draws, runs, last = np.random.RandomState(seed), rule.controls + 1, rule.looks[-1]
    won = (draws.random_sample((repetitions, last)) < treated).astype(np.int64)
    s = won + draws.binomial(rule.controls, base, (repetitions, last))
    u, v = np.cumsum(runs * won - s, axis=1), np.cumsum(s * (runs - s), axis=1)
    longest = _longest(won)
    is_open, adopted, trials = np.ones(repetitions, dtype=bool), 0, 0
    for k in rule.looks:
        now_u, now_v = u[:, k - 1], v[:, k - 1]
        meets = (now_u > 0) & (now_v >= rule.least_v) & (k * now_u**2 >= rule.bound * now_v)
        ends = is_open & meets & (longest[:, k - 1] >= rule.wins_in_a_row)
        adopted += int(ends.sum())
        is_open &= ~ends
        trials += k * int(ends.sum())
    return Simulated(repetitions, adopted, trials + last * int(is_open.sum()))


def _longest(won: Counts) -> Counts:
    """Longest winning streak up to each trial."""
    streak, longest = np.zeros(len(won), dtype=np.int64), np.zeros_like(won)
    best = streak.copy()
    for place in range(won.shape[1]):
        streak = (streak + 1) * won[:, place]
        best = np.maximum(best, streak)
        longest[:, place] = best
    return longest
