"""Exact tests on counts, as fractions. Pure."""

from __future__ import annotations

from fractions import Fraction
from math import comb

PICO = 10**12


def pico(chance: Fraction) -> int:
    """A probability in units of 10^-12, rounded up, so a recorded p is never smaller than the exact one."""
    return -(-chance.numerator * PICO // chance.denominator)


def fisher(champion_passed: int, champion_runs: int, challenger_passed: int, challenger_runs: int) -> Fraction:
    """Fisher's exact test, one-sided: the probability of as few challenger passes or fewer if both arms are equal."""
    passed = champion_passed + challenger_passed
    fewest = max(0, passed - champion_runs)
    ways = sum(
        comb(challenger_runs, each) * comb(champion_runs, passed - each)
        for each in range(fewest, challenger_passed + 1)
    )
    return Fraction(ways, comb(champion_runs + challenger_runs, passed))


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
