"""Simulates what a promotion reads, and what the corrected estimate says, where the true difference is known."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np

from gate.selection import correct_selection


def read_promotions(base: float, gain: float, instances: int, alpha: float, repetitions: int) -> tuple[float, float]:
    """Mean difference of promoted challengers as observed, and as corrected; one repeat an instance."""
    draws = np.random.RandomState(11)
    z = NormalDist().inv_cdf(1 - alpha)
    deltas = (draws.random_sample((repetitions, instances)) < base + gain).astype(int)
    deltas -= draws.random_sample((repetitions, instances)) < base
    means, length = deltas.mean(axis=1), np.sqrt((deltas**2).sum(axis=1))
    passed = deltas.sum(axis=1) >= z * np.maximum(length, 1e-9)
    corrected = []
    for mean, own in zip(means[passed], deltas[passed], strict=True):
        error = float(own.std(ddof=1)) / sqrt(instances)
        bound = z * sqrt(error**2 + mean**2 / instances)
        corrected.append(error * correct_selection(mean / error, min(bound, mean) / error))
    return float(means[passed].mean()), float(np.mean(corrected))
