"""When the sealed figures of an evaluation may be told."""

from __future__ import annotations

from projections.alpha import AlphaState, Spending


def tells_figures(ledger: AlphaState | None, evaluation: str, *, is_succeeded: bool, is_playing: bool) -> bool:
    """True if the sealed figures of an evaluation may be told.

    That is so once its benchmark was retired, because it has a successor or is exhausted and nothing is played on it
    (whose alpha may come back), and after an inspection that was paid for. An evaluation from before there was a ledger
    spent no alpha that a look could break.
    """
    if ledger is None or is_succeeded or (ledger.is_exhausted and not is_playing):
        return True
    inspected = evaluation in {look.evaluation for look in ledger.inspections}
    return inspected or not any(_counts(each) and each.evaluation == evaluation for each in ledger.spendings)


def _counts(spending: Spending) -> bool:
    """True if a spending belongs to the ledger and stayed spent."""
    return bool(spending.challenge) and not spending.is_returned
