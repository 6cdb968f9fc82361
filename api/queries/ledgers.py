"""The gate's ledgers: the alpha of each benchmark, the evaluations that spent it, and what they decided."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gate.figures import count_noun, decimal
from projections.alpha import ALPHA, AlphaState, Spending
from projections.engine.views import Views
from projections.verdicts import VERDICTS, VerdictState

from .benchmarks import WAY_OUT
from .facts import find_state
from .paging import page_after


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
    """One benchmark: its alpha for all challengers, what was spent so far, and what is left.

    Each of the `inspected` evaluations, whose sealed figures were looked at while the benchmark could judge, spent the
    alpha of one challenger. Alpha is in millionths. The remainder of dividing it by the number of challengers is never
    spent.
    """

    benchmark: str
    alpha: int
    challengers: int
    challenges: int
    spent: int
    left: int
    is_exhausted: bool
    evaluations: tuple[LedgerEntry, ...]
    inspected: tuple[str, ...] = ()


class LedgerAnswer(msgspec.Struct, frozen=True):
    """The ledger of one benchmark."""

    ledger: Ledger


def list_ledgers(
    views: Views, *, after: str | None = None, limit: int | None = None
) -> tuple[tuple[Ledger, ...], str | None]:
    """The ledgers of the first `limit` benchmarks that sort after `after` (None: all), and where it goes on."""
    page, following = page_after(views, ALPHA, after, limit)
    names = [spending.evaluation for state in page.values() for spending in state.spendings]
    verdicts = views.pick(VERDICTS, names)
    return tuple(_ledger(state, verdicts) for state in page.values()), following


def show_ledger(views: Views, benchmark: str) -> LedgerAnswer:
    """The ledger of one benchmark. Raises Unknown."""
    state = find_state(views, ALPHA, benchmark, what="benchmark", way_out=WAY_OUT)
    verdicts = views.pick(VERDICTS, [spending.evaluation for spending in state.spendings])
    return LedgerAnswer(ledger=_ledger(state, verdicts))


def total_alpha(ledgers: Iterable[Ledger | AlphaState]) -> int:
    """Alpha of several benchmarks in millionths: the bound of the chance of any false promotion on any of them."""
    return sum(each.alpha for each in ledgers)


def describe_total(views: Views, cap: float | None) -> str:
    """The bound on the chance of any false promotion in the project, and its cap."""
    known = tuple(views.find(ALPHA).values())
    spent = decimal(sum(each.spent_total for each in known))
    limit = "no cap is set" if cap is None else f"capped at {decimal(round(cap * 1_000_000))}"
    total = f"alpha {decimal(total_alpha(known))} over {count_noun(len(known), 'benchmark')}"
    return f"the project: {total}, spent {spent}; {limit}"


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
        inspected=tuple(each.evaluation for each in state.inspections),
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
