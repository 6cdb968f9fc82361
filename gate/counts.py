"""Exact tests on counts, as fractions. Pure."""

from __future__ import annotations

from fractions import Fraction
from math import comb

PICO = 10**12


def pico(chance: Fraction) -> int:
    """A probability in units of 10^-12, rounded up, so a recorded p is never smaller than the exact one."""
    return -(-chance.numerator * PICO // chance.denominator)


def floor_pico(chance: Fraction) -> int:
    """A probability in units of 10^-12, rounded down, so a recorded bound is never larger than the exact one."""
    return chance.numerator * PICO // chance.denominator


def sign_test(first: int, second: int) -> Fraction:
    """Exact two-sided sign test: the probability of counts at least this uneven if both outcomes are equally likely."""
    total, fewer = first + second, min(first, second)
    tail = sum(comb(total, each) for each in range(fewer + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**total))


def mcnemar_mid_p(wins: int, losses: int) -> Fraction:
    """McNemar's two-sided mid-p over discordant pairs: the exact test with half the weight of the observed counts."""
    total, fewer = wins + losses, min(wins, losses)
    tail = sum(comb(total, each) for each in range(fewer + 1))
    return Fraction(2 * tail - comb(total, fewer), 2**total)
