"""Simulated latency and failures of a site's pages; its admin surface is never affected. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from ..contract import MICRO, micro_units

LONGEST_MS: Final = 60_000
RETRY_AFTER_S: Final = 1


@dataclass(frozen=True, slots=True)
class Conditions:
    """Each page request waits `least_ms` to `most_ms` milliseconds; `failures_e6` in a million are answered with 503.

    Raises ValueError for values out of range.
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
        """The latency as written in the option: `20-80`."""
        return f"{self.least_ms}-{self.most_ms}"

    @property
    def failure_rate(self) -> float:
        """Share of requests that fail, from 0 to 1."""
        return self.failures_e6 / MICRO


@dataclass(frozen=True, slots=True)
class Fate:
    """Outcome of one request: its delay, and whether it is answered with 503."""

    delay_ms: int
    is_refused: bool


CLEAR: Final = Conditions()
UNHARMED: Final = Fate(0, is_refused=False)


def fate(conditions: Conditions, *, seed: int, repeat: int, number: int) -> Fate:
    """Outcome of an instance's request with this number (from 1); equal arguments give equal outcomes."""
    if conditions == CLEAR:
        return UNHARMED
    rng = random.Random(f"conditions:{seed}:{repeat}:{number}")  # noqa: S311 (a repeatable stream is wanted)
    delay_ms = rng.randint(conditions.least_ms, conditions.most_ms)
    return Fate(delay_ms, is_refused=rng.randrange(MICRO) < conditions.failures_e6)


def read_conditions(latency: str | None, failure_rate: float | None) -> Conditions:
    """Parse conditions: a latency such as `20-80` or `50` ms, and a rate from 0 to 1. Raises ValueError."""
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
