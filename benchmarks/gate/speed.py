"""Speed of a verdict over 1,000 instances, against scipy's paired permutation test with as many draws."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.report import median_rates
from eventlog.events import Rules
from gate.alpha import Alpha
from gate.arms import Arm, Result
from gate.judge import judge

from .worlds import World, chances, frozen, simulate_arms

INSTANCES = 1_000
SPENT = Alpha(1, 5_000, 5_000)
DRAWS = 4_000
"""Number of draws of the default rules at this alpha, when the test is not exact."""


def speeds(repeats: int) -> dict[str, float]:
    """Speed ratios to scipy, and milliseconds per verdict, for continuous and binary scores."""
    figures: dict[str, float] = {}
    for kind in ("continuous", "binary"):
        rates = median_rates(_arms(kind), repeats)
        named = f"{INSTANCES} instances, {kind} scores"
        figures[f"{named}, verdict / scipy.stats.permutation_test, times as fast"] = rates["verdict"] / rates["scipy"]
        figures[f"{named}, verdict / scipy on differences, times as fast"] = rates["verdict"] / rates["one sample"]
        figures[f"{named}, ms a verdict"] = 1_000 / rates["verdict"]
    return figures


def _arms(kind: str) -> dict[str, Callable[[], tuple[int, float]]]:
    champion, challenger = _scored(kind)
    benchmark = frozen(INSTANCES, 1)
    first, second = (
        np.array([arm.sealed[place].score for place in sorted(arm.sealed)], dtype=float)
        for arm in (champion, challenger)
    )

    return {
        "verdict": lambda: _timed(lambda: judge(champion, challenger, benchmark, Rules(), SPENT)),
        "scipy": lambda: _timed(
            lambda: _permuted((second, first), lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis))
        ),
        "one sample": lambda: _timed(lambda: _permuted((second - first,), lambda x, axis: np.mean(x, axis=axis))),
    }


def _timed(act: Callable[[], object]) -> tuple[int, float]:
    """Run `act` once and return its CPU time, which other load does not affect: both sides use one thread."""
    began = time.process_time()
    act()
    return 1, time.process_time() - began


def _permuted(samples: tuple[Any, ...], statistic: Callable[..., Any]) -> float:
    found = stats.permutation_test(
        samples,
        statistic,
        permutation_type="samples",
        alternative="greater",
        n_resamples=DRAWS,
        vectorized=True,
        rng=1,
    )
    return float(found.pvalue)


def _scored(kind: str) -> tuple[Arm, Arm]:
    world = World(instances=INSTANCES, repeats=1, is_uneven=True)
    rng = np.random.default_rng(5)
    found = simulate_arms(world, chances(world, rng), rng)
    if kind == "binary":
        return found.champion, found.challenger
    return _continuous(found.champion, rng), _continuous(found.challenger, rng)


def _continuous(arm: Arm, rng: np.random.Generator) -> Arm:
    """The arm with scores drawn between 0 and 1."""
    drawn = rng.integers(0, 400_000, len(arm.sealed))
    sealed = {
        place: Result(abs(result.score - int(moved)), result.passed, 1)
        for (place, result), moved in zip(arm.sealed.items(), drawn, strict=True)
    }
    return replace(arm, sealed=sealed)
