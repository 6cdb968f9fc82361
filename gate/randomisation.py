"""The paired randomisation test: how often random signs give a sum as large as the observed one. Pure, in integers.

Where the arms do not differ, the sign of every difference is as likely plus as minus. The chance is over all ways of
signing them, counted exactly where the sums are few, else over draws from a frozen stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from operator import getitem
from random import Random

_BYTE = 8


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The one-sided p of a sign-flip test, and over how many draws it was taken (None: it is exact)."""

    p: Fraction
    draws: int | None


def sign_flip(values: Sequence[int], draws: int, max_exact: int, seed: int) -> SignFlip:
    """The chance that random signs sum to at least what `values` sum to.

    Counting takes as many additions as there are values other than zero, times the width of their distribution; it is
    done where that is at most `max_exact`. Else `draws` are taken, and the observed signs count as one more.
    """
    step = gcd(*values)
    if not step:
        return SignFlip(Fraction(1), None)
    magnitudes = sorted(abs(value) // step for value in values if value)
    observed = sum(values) // step
    if len(magnitudes) * sum(magnitudes) <= max_exact:
        return SignFlip(_counted(magnitudes, observed), None)
    return SignFlip(_drawn(magnitudes, observed, draws, seed), draws)


def _counted(magnitudes: Sequence[int], observed: int) -> Fraction:
    """All ways of signing at once: one integer holds, lane by lane, in how many ways the positive ones reach each sum.

    A lane is one bit wider than there are signs, so no lane overflows, and the sum of lanes is the rest modulo a lane
    full of ones.
    """
    lane = len(magnitudes) + 1
    ways = 1
    for magnitude in magnitudes:
        ways += ways << (magnitude * lane)
    needed = (observed + sum(magnitudes)) // 2
    return Fraction((ways >> (needed * lane)) % ((1 << lane) - 1), 1 << len(magnitudes))


def _drawn(magnitudes: Sequence[int], observed: int, draws: int, seed: int) -> Fraction:
    """One bit a sign. The sums of eight values at a time are looked up by the byte that holds their signs."""
    tables = [_signed_sums(magnitudes[start : start + _BYTE]) for start in range(0, len(magnitudes), _BYTE)]
    draw, signs, octets = Random(seed).getrandbits, len(magnitudes), len(tables)  # noqa: S311 - a frozen stream
    reached = 0
    for _ in range(draws):
        drawn = draw(signs).to_bytes(octets, "little")
        reached += sum(map(getitem, tables, drawn)) >= observed
    return Fraction(1 + reached, 1 + draws)


def _signed_sums(values: Sequence[int]) -> list[int]:
    """The sum for every choice of signs: bit i of the index says whether the i-th value is added or taken away."""
    sums = [0]
    for value in values:
        sums = [total - value for total in sums] + [total + value for total in sums]
    return sums
