"""The paired sign-flip randomisation test. Pure, in integers.

If the arms do not differ, plus and minus are equally likely for every difference. The p-value is the share of sign
assignments whose sum is at least the observed one: counted exactly if cheap, else sampled from a frozen stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np

from .exact import Array, integers, octets

_BYTE = 8
_BLOCK = 1_000


@dataclass(frozen=True, slots=True)
class SignFlip:
    """One-sided p of a sign-flip test, and the number of draws (None: it is exact)."""

    p: Fraction
    draws: int | None


def sign_flip(values: Sequence[int], draws: int, max_exact: int, seed: int) -> SignFlip:
    """Probability that `values` with random signs sum to at least the sum of `values`.

    Exact counting costs as many additions as there are nonzero values, times the width of their distribution; it is
    used if that is at most `max_exact`. Otherwise `draws` are sampled, and the observed signs count as one more.
    """
    step = gcd(*values)
    if not step:
        return SignFlip(Fraction(1), None)
    magnitudes = sorted(abs(value) // step for value in values if value)
    observed = sum(values) // step
    if len(magnitudes) * sum(magnitudes) <= max_exact:
        return SignFlip(_exact_p(magnitudes, observed), None)
    return SignFlip(_sampled_p(magnitudes, observed, draws, seed), draws)


def _exact_p(magnitudes: Sequence[int], observed: int) -> Fraction:
    """Count all sign assignments at once: each lane of one integer counts the ways in which positives reach a sum.

    A lane is one bit wider than there are signs, so no lane overflows, and the sum of lanes is the rest modulo a lane
    full of ones.
    """
    lane = len(magnitudes) + 1
    ways = 1
    for magnitude in magnitudes:
        ways += ways << (magnitude * lane)
    needed = (observed + sum(magnitudes)) // 2
    return Fraction((ways >> (needed * lane)) % ((1 << lane) - 1), 1 << len(magnitudes))


def _sampled_p(magnitudes: Sequence[int], observed: int, draws: int, seed: int) -> Fraction:
    reached = sum(int((sums >= observed).sum()) for sums in _drawn_sums(magnitudes, draws, seed))
    return Fraction(1 + reached, 1 + draws)


def draw_sums(magnitudes: Sequence[int], draws: int, seed: int) -> Array:
    """Sums of these values with random signs, one for each draw of the frozen stream of `seed`."""
    return np.concatenate(list(_drawn_sums(magnitudes, draws, seed)))


def _drawn_sums(magnitudes: Sequence[int], draws: int, seed: int) -> Iterator[Array]:
    """Blocks of sums, one bit per sign; the sums of eight values are looked up by the byte that holds their signs."""
    padded = [*magnitudes, *[0] * (-len(magnitudes) % _BYTE)]
    tables = _signed_sums(integers(padded, len(padded)).reshape(-1, _BYTE))
    draw, columns = octets(seed), len(tables)
    for block in range(0, draws, _BLOCK):
        rows = min(_BLOCK, draws - block)
        drawn = np.frombuffer(draw(rows * columns), dtype=np.uint8).reshape(rows, columns)
        yield tables[np.arange(columns), drawn].sum(axis=1)


def _signed_sums(eights: Array) -> Array:
    """Signed sums of each row of eight values; in the column number, bit i is the sign of value i."""
    sums = np.zeros_like(eights[:, :1])
    for place in range(_BYTE):
        value = eights[:, place : place + 1]
        sums = np.concatenate([sums - value, sums + value], axis=1)
    return sums
