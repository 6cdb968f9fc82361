"""Alpha spending across the challengers of a benchmark, by the union bound. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from projections.alpha import AlphaState

from .errors import BenchmarkExhausted, NotOpened


@dataclass(frozen=True, slots=True)
class Alpha:
    """Alpha of one evaluation, in millionths. `challenge` counts from 1; `spent` is the total including this share."""

    challenge: int
    alpha: int
    spent: int


def next_alpha(ledger: AlphaState) -> Alpha:
    """Alpha of the next challenger: an equal share, rounded down. Raises BenchmarkExhausted."""
    if ledger.is_exhausted:
        raise BenchmarkExhausted(benchmark=ledger.benchmark, actual=ledger.challenges, expected=ledger.challengers)
    share = ledger.alpha // ledger.challengers
    return Alpha(ledger.last_number + 1, share, ledger.spent_total + share)


def alpha_of(ledger: AlphaState, evaluation: str) -> Alpha:
    """Alpha of an opened evaluation. Raises NotOpened if the ledger does not hold it."""
    found = next((spending for spending in ledger.spendings if spending.evaluation == evaluation), None)
    if found is None:
        raise NotOpened(evaluation=evaluation)
    earlier = (each for each in ledger.spendings if each.since <= found.since)
    before = sum(each.alpha for each in earlier if not each.is_returned)
    return Alpha(found.challenge, found.alpha, before)
