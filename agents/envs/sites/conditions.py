"""Slow and failing pages: what a served site does to an agent's requests, and never to its admin surface. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from ..contract import MICRO, micro_units

LONGEST_MS: Final = 60_000
RETRY_AFTER_S: Final = 1


@dataclass(frozen=True, slots=True)
class Conditions:
    """Every page waits from `least_ms` to `most_ms` milliseconds; `failures_e6` in a million answer 503 instead.

    Raises ValueError for what cannot be meant.
    """

    least_ms: int = 0
    most_ms: int = 0
    failures_e6: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.least_ms <= self.most_ms <= LONGEST_MS:
            raise ValueError(f"the latency is {self.latency}: expected A-B in ms with 0 <= A <= B <= {LONGEST_MS}")
        if not 0 <= self.failures_e6 <= MICRO:
            raise ValueError(f"the failure rate is {self.failure_rate}: expected a number from 0 to 1")

    @property
    def latency(self) -> str:
        """The latency as it is typed: `20-80`."""
        return f"{self.least_ms}-{self.most_ms}"

    @property
    def failure_rate(self) -> float:
        """The share of requests that fail, from 0 to 1."""
        return self.failures_e6 / MICRO


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one request: how long it waits, and whether it is answered 503."""

    delay_ms: int
    is_refused: bool


CLEAR: Final = Conditions()
UNHARMED: Final = Fate(0, is_refused=False)


def fate(conditions: Conditions, *, seed: int, repeat: int, number: int) -> Fate:
    """What becomes of an instance's request with this number (from 1): the same whenever it is asked again."""
    if conditions == CLEAR:
        return UNHARMED
    rng = random.Random(f"conditions:{seed}:{repeat}:{number}")  # noqa: S311 (a repeatable stream is wanted)
    delay_ms = rng.randint(conditions.least_ms, conditions.most_ms)
    return Fate(delay_ms, is_refused=rng.randrange(MICRO) < conditions.failures_e6)


def read_conditions(latency: str | None, failure_rate: float | None) -> Conditions:
    """Conditions as they are typed, `20-80` or `50` ms and a rate from 0 to 1. Raises ValueError."""
    least_ms, most_ms = _latency(latency or "0")
    try:
        failures_e6 = micro_units(failure_rate or 0)
    except ValueError as problem:
        raise ValueError(f"the failure rate is {failure_rate}: expected a number from 0 to 1") from problem
    return Conditions(least_ms, most_ms, failures_e6)


def _latency(text: str) -> tuple[int, int]:
    least, dash, most = text.strip().partition("-")
    ends = (least.strip(), most.strip() if dash else least.strip())
    if not all(end.isascii() and end.isdigit() and len(end) <= len(str(LONGEST_MS)) for end in ends):
        raise ValueError(f"the latency is {text!r}: expected A-B in ms, such as 20-80, up to {LONGEST_MS}")
    return int(ends[0]), int(ends[1])
