"""Alpha spending across a benchmark's challengers and the inspections of its sealed part, by the union bound. Pure."""

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


def share_of(ledger: AlphaState) -> int:
    """Alpha of each challenger, and of each inspection: an equal share in millionths, rounded down."""
    return ledger.alpha // ledger.challengers


def next_alpha(ledger: AlphaState) -> Alpha:
    """Alpha of the next challenger: an equal share, rounded down. Raises BenchmarkExhausted."""
    if ledger.is_exhausted:
        used = ledger.challengers - ledger.challengers_left
        raise BenchmarkExhausted(benchmark=ledger.benchmark, actual=used, expected=ledger.challengers)
    share = share_of(ledger)
    return Alpha(ledger.last_number + 1, share, ledger.spent_total + share)


def alpha_of(ledger: AlphaState, evaluation: str) -> Alpha:
    """Alpha of an opened evaluation. Raises NotOpened if the ledger does not hold it."""
    found = next((spending for spending in ledger.spendings if spending.evaluation == evaluation), None)
    if found is None:
        raise NotOpened(evaluation=evaluation)
    return Alpha(found.challenge, found.alpha, ledger.spent_until(found.since))
