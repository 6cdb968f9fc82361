"""Power of the sign-flip test and the benchmark size it requires, by the normal approximation. Pure, in integers.

The normal distribution is computed in fixed point, because floating-point libraries differ in their last digit and
verdicts are compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt

from .stats import MICRO, ceil_divide

UNIT = 10**18
"""The number 1 in fixed point."""

_PI = 3_141_592_653_589_793_238
_FAR = 8 * UNIT
_GUARD = 10**18
_EIGHTY = 841_621_233_572_914_205
"""The 80 % point of the normal distribution."""

_MOST = 1_000_000


def normal(z: int) -> int:
    """CDF of the standard normal distribution at z, both in `UNIT`; 0 or 1 beyond 8. Accurate to 15 digits."""
    if abs(z) >= _FAR:
        return UNIT * (z > 0)
    unit = UNIT * _GUARD
    term = total = z * _GUARD
    square, index = term * term // unit, 0
    while term:
        index += 1
        term = -term * square // (2 * index * unit)
        total += term // (2 * index + 1)
    return UNIT // 2 + total // _GUARD * UNIT // isqrt(2 * _PI * UNIT)


@cache
def quantile(share: int) -> int:
    """Quantile of the standard normal distribution at `share` millionths, in `UNIT`; 0 < share < 1_000_000."""
    low, high = -_FAR, _FAR
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if normal(middle) * MICRO < share * UNIT else (low, middle)
    return high


def power(values: Sequence[int], alpha: int) -> int | None:
    """Power in millionths at `alpha` (millionths) for as many instances as `values`, if they differ as much as these.

    None if all differences are zero, or alpha is.
    """
    if not 0 < alpha < MICRO or not any(values):
        return None
    return normal(_deviations(values) - quantile(MICRO - alpha)) * MICRO // UNIT


def pairs_needed(values: Sequence[int], alpha: int) -> int | None:
    """Number of instances that give a power of 0.8 at `alpha`, if they differ as much as `values`.

    None if the mean difference is not above zero, or if more than a million instances are needed.
    """
    observed = _deviations(values) if any(values) else 0
    if not 0 < alpha < MICRO or observed <= 0:
        return None
    needed = ceil_divide(len(values) * (quantile(MICRO - alpha) + _EIGHTY) ** 2, observed**2)
    return needed if needed <= _MOST else None


def _deviations(values: Sequence[int]) -> int:
    """Sum of the values divided by the standard deviation of their sum under random signs, in `UNIT`."""
    total = sum(values)
    size = isqrt(total * total * UNIT * UNIT // sum(value * value for value in values))
    return size if total > 0 else -size
