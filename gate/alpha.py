"""Spending alpha across challengers: the union bound over as many as the benchmark was frozen for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from projections.alpha import AlphaState

from .errors import BenchmarkExhausted, NotOpened


@dataclass(frozen=True, slots=True)
class Alpha:
    """What one evaluation may spend, in millionths, as number `challenge` from 1; `spent` is all, this included."""

    challenge: int
    alpha: int
    spent: int


def next_alpha(ledger: AlphaState) -> Alpha:
    """What the next challenger may spend: an equal share, rounded down. Raises BenchmarkExhausted."""
    if ledger.is_exhausted:
        raise BenchmarkExhausted(benchmark=ledger.benchmark, actual=ledger.challenges, expected=ledger.challengers)
    share = ledger.alpha // ledger.challengers
    return Alpha(ledger.challenges + 1, share, ledger.spent_total + share)


def alpha_of(ledger: AlphaState, evaluation: str) -> Alpha:
    """What an evaluation that was opened may spend. Raises NotOpened where the ledger does not hold it."""
    found = next((spending for spending in ledger.spendings if spending.evaluation == evaluation), None)
    if found is None:
        raise NotOpened(evaluation=evaluation)
    before = sum(spending.alpha for spending in ledger.spendings if spending.since <= found.since)
    return Alpha(found.challenge, found.alpha, before)
