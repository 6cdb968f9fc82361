"""Early stopping by an e-process, a bet on each instance that gives anytime-valid evidence. Pure, in integers.

A gambler bets a share of its wealth that the challenger beats the champion on the next instance. If the challenger is
not better, the wealth is a nonnegative supermartingale, so the probability that it ever reaches 1 / alpha is at most
alpha (Ville's inequality), however often it is checked. The e-value is the mean wealth of fifteen gamblers with fixed
shares, which as a mixture is a supermartingale too (testing by betting: Waudby-Smith and Ramdas, Journal of the Royal
Statistical Society B 86, 2024). Wealth is rounded down after each bet, which can only reduce the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from eventlog.events import BenchmarkFrozen, Rules

from .alpha import Alpha
from .arms import Arm, PairedInstance, Pairs, pairs
from .losses import count_lost_as_failed
from .stats import MICRO
from .units import order_units
from .voids import gaps

_SHARES, _PARTS = range(1, 16), 16
"""A gambler bets `share / _PARTS` of its wealth."""

_STAKE = 2**64
"""Initial wealth of every gambler, in units of its fortune."""


@dataclass(frozen=True, slots=True)
class EProcessResult:
    """Result of an e-process over the first `looked_at` instances of the order."""

    looked_at: int
    e_value: Fraction
    is_stopped: bool

    @property
    def p(self) -> Fraction:
        """The p-value that corresponds to the e-value."""
        return min(Fraction(1), 1 / self.e_value) if self.e_value else Fraction(1)


def stopped_at(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> int | None:
    """Number of instances of `order` after which the e-process stops; None if it continues.

    It stops where 1 / alpha is reached, or can no longer be reached even if the challenger wins every remaining
    instance. It does not stop while the verdict would be void, with fewer than `rules.min_pairs` instances or too many
    missing pairs. Instances without a pair are skipped, so call this only after all repeats of the instances played so
    far have ended in both arms.
    """
    found = evidence(champion, challenger, benchmark, rules, spent)
    return found.looked_at if found.is_stopped else None


def evidence(champion: Arm, challenger: Arm, benchmark: BenchmarkFrozen, rules: Rules, spent: Alpha) -> EProcessResult:
    """Result of the e-process where it stops, else at the end of the order.

    Where rules charge losses, a second one bets on the results with lost places as failed, and the smaller counts.
    """
    units, is_charged = order_units(benchmark, rules), rules.charges_losses
    failing = (count_lost_as_failed(champion), count_lost_as_failed(challenger)) if is_charged else None
    bets = [[_STAKE] * len(_SHARES) for _ in range(2 if failing else 1)]
    compared, looked_at = Pairs((), 0, 0), 0
    for number, tasks in enumerate(units, start=1):
        found = pairs(champion, challenger, benchmark, tasks)
        compared, looked_at = _together(compared, found), looked_at + len(tasks)
        also = [pairs(*failing, benchmark, tasks)] if failing else []
        each = zip(bets, [found, *also], strict=True)
        bets = [_after(fortunes, own.instances) if own.instances else fortunes for fortunes, own in each]
        is_reached = all(_is_reached(fortunes, spent.alpha) for fortunes in bets)
        can_reach = all(_is_reachable(fortunes, len(units) - number, spent.alpha) for fortunes in bets)
        if found.instances and (is_reached or not can_reach) and not any(gaps(compared, rules)):
            return EProcessResult(looked_at, min(map(_mean, bets)), is_stopped=True)
    return EProcessResult(looked_at, min(map(_mean, bets)), is_stopped=False)


def _together(before: Pairs, found: Pairs) -> Pairs:
    return Pairs(
        before.instances + found.instances,
        before.planned + found.planned,
        before.missing + found.missing,
        before.champion_missing + found.champion_missing,
        before.challenger_missing + found.challenger_missing,
        before.champion_lost + found.champion_lost,
        before.challenger_lost + found.challenger_lost,
        (before.interrupted[0] + found.interrupted[0], before.interrupted[1] + found.interrupted[1]),
    )


def _after(fortunes: Sequence[int], unit: Sequence[PairedInstance]) -> list[int]:
    """Fortunes of all gamblers after a bet on one unit: each wins or loses its share of the mean difference."""
    shared = lcm(*(len(instance.deltas) for instance in unit))
    won = sum(sum(instance.deltas) * (shared // len(instance.deltas)) for instance in unit)
    whole = _PARTS * MICRO * shared * len(unit)
    return [fortune * (whole + share * won) // whole for share, fortune in zip(_SHARES, fortunes, strict=True)]


def _is_reached(fortunes: Sequence[int], alpha: int) -> bool:
    return sum(fortunes) * alpha >= len(fortunes) * _STAKE * MICRO


def _is_reachable(fortunes: Sequence[int], left: int, alpha: int) -> bool:
    best: int = sum(fortune * (_PARTS + share) ** left for share, fortune in zip(_SHARES, fortunes, strict=True))
    return best * alpha >= len(fortunes) * _STAKE * MICRO * int(_PARTS**left)


def _mean(fortunes: Sequence[int]) -> Fraction:
    return Fraction(sum(fortunes), len(fortunes) * _STAKE)
