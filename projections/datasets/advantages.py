"""Group-relative advantages of runs over their siblings. Pure, in integers; the only implementation."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import isqrt

NANO = 10**9
"""An advantage of 1 in the stored integer unit."""

_FINE = 10**12
"""A standard deviation is rounded down to this fraction of a millionth."""


def centred_rewards(rewards: Sequence[int]) -> tuple[int, ...]:
    """`r - mean` of each reward, in units of 10^-9, rounded half to even. Rewards are in millionths."""
    n, total = len(rewards), sum(rewards)
    return tuple(_round_half_even((n * reward - total) * (NANO // 1_000_000), n) for reward in rewards)


def advantages(rewards: Sequence[int], ddof: int, eps: str) -> tuple[int, ...]:
    """`(r - mean) / (std + eps)` of each reward, in units of 10^-9 (NANO), rounded half to even.

    Rewards are in millionths, `eps` is a decimal number in units of the reward. `std` divides by n - ddof. Raises
    ValueError if there are too few rewards for that, or if std and eps are both 0.
    """
    n, total = len(rewards), sum(rewards)
    if n <= ddof:
        raise ValueError(f"{n} rewards have no deviation with ddof {ddof}; expected at least {ddof + 1}")
    spread = n * sum(reward * reward for reward in rewards) - total * total
    std = isqrt(spread * _FINE * _FINE // (n * (n - ddof)))
    least = int(Decimal(eps) * 1_000_000 * _FINE)
    if std + least == 0:
        raise ValueError("the rewards do not differ and eps is 0; expected rewards that differ or an eps above 0")
    return tuple(_round_half_even((n * reward - total) * _FINE * NANO, n * (std + least)) for reward in rewards)


def _round_half_even(numerator: int, denominator: int) -> int:
    """A quotient, rounded half to even; the denominator must be positive."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))
