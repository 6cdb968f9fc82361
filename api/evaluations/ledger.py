"""The alpha ledger: alpha of each benchmark, the evaluations that spent it, and their decisions."""

from __future__ import annotations

from dataclasses import dataclass

from projections.alpha import ALPHA, AlphaState, Spending
from projections.engine.views import Views
from projections.verdicts import VERDICTS, VerdictState


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Alpha spent by one evaluation, in millionths. `challenge` 0: it was opened before alpha ledgers existed.

    `decision` is None while the arms are playing; no decision refunds the alpha.
    """

    evaluation: str
    challenge: int
    alpha: int
    champion: str
    challenger: str
    since: int
    decision: str | None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Ledger of one benchmark: `alpha` for all `challengers`, `spent` by the `challenges` so far, and the rest.

    Alpha is in millionths. The remainder of its division by the number of challengers is never spent.
    """

    benchmark: str
    alpha: int
    challengers: int
    challenges: int
    spent: int
    left: int
    is_exhausted: bool
    evaluations: tuple[LedgerEntry, ...]


def ledgers(views: Views) -> tuple[Ledger, ...]:
    """Ledgers of all benchmarks, ordered by name, at the position of `views`."""
    verdicts = views.find(VERDICTS)
    return tuple(_ledger(state, verdicts) for state in views.find(ALPHA).values())


def ledger(views: Views, benchmark: str) -> Ledger | None:
    """Ledger of one benchmark; None if the benchmark does not exist."""
    state = views.get(ALPHA, benchmark)
    return None if state is None else _ledger(state, views.find(VERDICTS))


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
