"""Meaning of a confidence: accept, refine, retry or fail; ground truth over self-report. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from eventlog.events import EvaluationConfig

Appraisal = Literal["accept", "refine", "retry", "fail"]
ConfidenceSource = Literal["reported", "verified", "derived", "missing", "error"]


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence in a result, where it comes from, and what the worker said of itself (None: nothing)."""

    micro: int
    source: ConfidenceSource
    reported: int | None


def appraise(confidence: int, config: EvaluationConfig) -> Appraisal:
    """accept: good enough. refine: improve on it. retry: do it again. fail: another way is needed."""
    if confidence >= config.accept:
        return "accept"
    if confidence >= config.retry:
        return "refine"
    return "retry" if confidence >= config.fail else "fail"


def confidence_of(reported: int | None, verified: int | None, calls: tuple[int, int]) -> Confidence:
    """Confidence in a result. Ground truth replaces what the worker reports; both are kept.

    `calls` are the tool calls that succeeded and all of them. A worker that reports nothing is judged by these: 0.1
    without one, up to 0.7 if all succeeded.
    """
    if verified is not None:
        return Confidence(verified, "verified", reported)
    if reported is not None:
        return Confidence(reported, "reported", reported)
    passed, total = calls
    if total == 0:
        return Confidence(0, "missing", None)
    return Confidence(round(100_000 + 600_000 * passed / total), "derived", None)


def mean_confidence(confidences: Iterable[int]) -> int:
    """The arithmetic mean in millionths, 0 of nothing."""
    found = list(confidences)
    return round(sum(found) / len(found)) if found else 0
