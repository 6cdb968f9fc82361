"""Convergence: whether a loop has levelled off at what it has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventlog.events import LoopConfig

LEAST_ITERATIONS: Final = 5
BESIDES_PENDING: Final = 3
HIGH: Final = 950_000
ALIKE: Final = 3


@dataclass(frozen=True, slots=True)
class Trend:
    """Input of the convergence check: each delegation's confidence and findings, oldest first."""

    iteration: int
    confidences: Sequence[int]
    findings: Sequence[str]
    pending: int
    strategies_left: int


def convergence(trend: Trend, config: LoopConfig) -> str | None:
    """Why the loop has converged, or None. The result is then `partial_complete`.

    It converges only from an iteration on that leaves time for pending subtasks, and only if no strategy is left to
    try or the confidence is at the accept threshold.
    """
    if not config.convergence or trend.iteration < max(LEAST_ITERATIONS, trend.pending + BESIDES_PENDING):
        return None
    if len(trend.confidences) < 2:  # noqa: PLR2004 a plateau has two ends
        return None
    last, before = trend.confidences[-1], trend.confidences[-2]
    if trend.strategies_left and last < config.evaluation.accept:
        return None
    if abs(last - before) < config.stall_detection.min_confidence_delta and last < HIGH:
        return "confidence_plateau"
    recent = trend.findings[-ALIKE:]
    return "identical_findings" if len(recent) == ALIKE and len(set(recent)) == 1 and recent[0] else None
