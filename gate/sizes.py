"""How many instances a benchmark needs to find an effect, and what it finds, by the normal approximation. Pure.

Instances have one base rate in both arms but for the effect, which is the hardest case: where tasks differ more, a
paired test gains. `make bench-gate` measures what the approximation says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from .power import UNIT, normal, quantile
from .stats import MICRO, ceil_divide

BASE = 600_000
"""Success rate of the champion for which benchmarks are planned, in millionths."""

_INFLATION = 1_120_000
"""Instances that a test with five looks and its futility bounds needs, to those of one look: 260 for a power of .80 at
+.15, measured by `make bench-gate`."""

_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Size:
    """A benchmark of so many sealed instances in all, and its power at an effect; millionths."""

    instances: int
    repeats: int
    effect: int
    power: int

    @property
    def runs(self) -> int:
        """The most runs of one evaluation, without confirming repeats."""
        return 2 * self.instances * self.repeats


def power_at(instances: int, repeats: int, effect: int, alpha: int) -> int:
    """Power in millionths to find a mean gain of `effect` at `alpha`, with this many sealed instances."""
    better = min(MICRO, BASE + effect)
    noise = (BASE * (MICRO - BASE) + better * (MICRO - better)) // repeats
    square = noise + effect * effect
    looked = instances * MICRO // _INFLATION
    reach = effect * isqrt(looked * UNIT * UNIT // max(1, square))
    spread = isqrt(noise * UNIT * UNIT // max(1, square)) or 1
    return normal((reach - quantile(MICRO - alpha)) * UNIT // spread) * MICRO // UNIT


def plan_size(effect: int, power: int, repeats: int, alpha: int) -> Size | None:
    """The smallest benchmark with this power at this effect; None if more than 100,000 instances are needed."""
    low, high = 0, _MOST
    if power_at(high, repeats, effect, alpha) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle, repeats, effect, alpha) >= power else (middle, high)
    return Size(high, repeats, effect, power_at(high, repeats, effect, alpha))


def seeds_of_each(instances: int, templates: int) -> int:
    """Seeds of each template that give at least so many instances in all."""
    return ceil_divide(instances, templates)
