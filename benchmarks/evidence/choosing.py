"""Simulates somebody who chooses challengers by what a benchmark tells, though none is better on new seeds."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from eventlog.events import Rules

Told = Literal["figures", "bands", "decisions"]

INSTANCES, KNOBS, TRIED, CHALLENGERS = 100, 60, 6, 10
_FIRST: Final = 0.5
"""Share of the knobs that the first challenger has."""

_MICRO: Final = 1_000_000
WIDTH: Final = 100_000
"""Half the width of the middle of three bands of the mean difference, in millionths."""
_Z: Final = 2.5758
"""The bound of a one-sided test at alpha .005, the share of one challenger of ten."""


def promotes(told: Told, repetitions: int, seed: int) -> int:
    """Number of repetitions in which any of ten challengers was promoted.

    A challenger is a set of knobs. Each knob helps or harms one sealed instance in ten, at random, so none is worth
    anything on new seeds. The chooser changes a few knobs of the best challenger so far.
    """
    draws = np.random.RandomState(seed)
    return sum(_any_promoted(told, draws) for _ in range(repetitions))


def _any_promoted(told: Told, draws: np.random.RandomState) -> bool:
    effects = draws.choice([-1, 0, 1], (KNOBS, INSTANCES), p=[0.05, 0.9, 0.05])
    best, seen = draws.random_sample(KNOBS) < _FIRST, -np.inf
    for challenger in range(CHALLENGERS):
        knobs = best.copy()
        if challenger:
            knobs[draws.choice(KNOBS, TRIED, replace=False)] ^= True
        deltas = np.clip(effects[knobs].sum(axis=0), -1, 1)
        if _is_promoted(deltas):
            return True
        value = _value(told, float(deltas.mean()))
        if value > seen or challenger == 0:
            best, seen = knobs, value
        elif value == seen and told != "figures":
            best = knobs
    return False


def _is_promoted(deltas: npt.NDArray[np.int64]) -> bool:
    length = float(np.sqrt((deltas**2).sum()))
    mean = float(deltas.mean())
    return length > 0 and deltas.sum() / length >= _Z and mean * _MICRO >= Rules().min_mean_delta


def _value(told: Told, mean: float) -> float:
    """What the chooser is told of a challenger that was held."""
    if told == "figures":
        return mean
    if told == "bands":
        return float(np.sign(mean)) if abs(mean) * _MICRO > WIDTH else 0.0
    return 0.0
