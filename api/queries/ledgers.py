"""The gate's ledgers: the alpha of each benchmark, the evaluations that spent it, and what they decided."""

from __future__ import annotations

import msgspec

from projections.alpha import ALPHA, AlphaState, Spending
from projections.engine.views import Views
from projections.verdicts import VERDICTS, VerdictState

from .benchmarks import WAY_OUT
from .facts import find_state


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation and the alpha that it spent, in millionths.

    `challenge` is 0 if the evaluation was opened before there was a ledger. `decision` is null while the arms play;
    what was spent stays spent, whatever is decided.
    """

    evaluation: str
    challenge: int
    alpha: int
    champion: str
    challenger: str
    since: int
    decision: str | None


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark: its alpha for all challengers, what the challenges so far have spent, and what is left.

    Alpha is in millionths. The remainder of dividing it by the number of challengers is never spent.
    """

    benchmark: str
    alpha: int
    challengers: int
    challenges: int
    spent: int
    left: int
    is_exhausted: bool
    evaluations: tuple[LedgerEntry, ...]


class LedgerAnswer(msgspec.Struct, frozen=True):
    """The ledger of one benchmark."""

    ledger: Ledger


def list_ledgers(views: Views) -> tuple[Ledger, ...]:
    """The ledger of every benchmark, in order of name."""
    verdicts = views.find(VERDICTS)
    return tuple(_ledger(state, verdicts) for state in views.find(ALPHA).values())


def show_ledger(views: Views, benchmark: str) -> LedgerAnswer:
    """The ledger of one benchmark. Raises Unknown."""
    state = find_state(views, ALPHA, benchmark, what="benchmark", way_out=WAY_OUT)
    return LedgerAnswer(ledger=_ledger(state, views.find(VERDICTS)))


def _ledger(state: AlphaState, verdicts: dict[str, VerdictState]) -> Ledger:
    return Ledger(
        benchmark=state.benchmark,
        alpha=state.alpha,
        challengers=state.challengers,
        challenges=state.challenges,
        spent=state.spent_total,
        left=state.alpha - state.spent_total,
        is_exhausted=state.is_exhausted,
        evaluations=tuple(_entry(spending, verdicts[spending.evaluation]) for spending in state.spendings),
    )


def _entry(spending: Spending, state: VerdictState) -> LedgerEntry:
    champion, challenger = state.artifacts()
    return LedgerEntry(
        evaluation=spending.evaluation,
        challenge=spending.challenge,
        alpha=spending.alpha,
        champion=str(champion),
        challenger=str(challenger),
        since=spending.since,
        decision=state.decision,
    )
