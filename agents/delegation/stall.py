"""The stall detector: two channels over a sliding window, and strategies to switch to. Pure.

The loop stops only if both channels agree and no strategy is left. One channel alone warns, however often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from statistics import fmean, pvariance
from typing import Final, Literal

from eventlog.events import StallDetectionConfig, Strategy

StallSignal = Literal["ok", "warn", "switch_strategy", "stop"]
COMPARED_CHARS: Final = 2_000
_MICRO: Final = 1_000_000
_TURNS: Final = 2
"""Oscillation has at least so many changes of direction; a steady climb has none."""

DIRECTIVES: Final[dict[Strategy, str]] = {
    "decompose_finer": "Break the current subtask into smaller pieces and delegate them one by one.",
    "simplify": "Reduce the scope: drop what is optional and solve the smallest version that still answers the task.",
    "reframe": "Look at the problem from another angle: other inputs, another order, another method.",
    "escalate": "A person or the parent was asked; follow the answer.",
}


@dataclass(frozen=True, slots=True)
class Stall:
    """The detector's finding. `strategy` is the next one if it says to switch. `similarity` is in millionths."""

    signal: StallSignal
    confidence_flat: bool = False
    outputs_alike: bool = False
    similarity: int = 0
    strategy: Strategy | None = None


def detect_stall(
    confidences: Sequence[int], outputs: Sequence[str], used: Sequence[str], config: StallDetectionConfig
) -> Stall:
    """Judge the iterations since the window began, the newest last; `used` are the strategies switched to before."""
    if not config.enabled or len(confidences) < config.window:
        return Stall("ok")
    flat = is_flat(confidences, config) or is_oscillating(confidences, config)
    first, last = outputs[-config.window], outputs[-1]
    alike = similarity(first, last) if first or last else 0.0
    micro = round(alike * _MICRO)
    repeats = micro > config.max_similarity
    if not (flat and repeats):
        return Stall("warn" if flat or repeats else "ok", flat, repeats, micro)
    left = [each for each in config.strategies if each not in used]
    if config.strategy_switching and left:
        return Stall("switch_strategy", flat, repeats, micro, left[0])
    return Stall("stop", flat, repeats, micro)


def is_flat(confidences: Sequence[int], config: StallDetectionConfig) -> bool:
    """True if the confidence did not change between the ends of the window."""
    return abs(confidences[-1] - confidences[-config.window]) < config.min_confidence_delta


def is_oscillating(confidences: Sequence[int], config: StallDetectionConfig) -> bool:
    """True if the confidence goes up and down at a low level, over one iteration more than the window."""
    recent = [each / _MICRO for each in confidences[-(config.window + 1) :]]
    if len(recent) <= config.window:
        return False
    moves = [after - before for before, after in pairwise(recent) if after != before]
    turns = sum((before < 0) != (after < 0) for before, after in pairwise(moves))
    is_low = fmean(recent) < config.oscillation_mean / _MICRO
    return is_low and turns >= _TURNS and pvariance(recent) < config.oscillation_variance / _MICRO


def similarity(first: str, second: str) -> float:
    """How alike the first 2,000 characters of two outputs are, between 0 and 1; of two empty ones 1."""
    if not first or not second:
        return float(first == second)
    return SequenceMatcher(None, first[:COMPARED_CHARS], second[:COMPARED_CHARS], autojunk=False).ratio()
