"""Advice: recovery's model calls about failed runs: the tokens of each run's last one, and the cost of all of them.

They were paid for, so withdrawals keep them.
"""

from __future__ import annotations

from msgspec.structs import replace

from .costs import BOOK_FIELDS, PriceBook
from .engine.projection import EventRow, Fold, FoldState


class AdviceState(FoldState, frozen=True, kw_only=True):
    """The tokens of the last call about a run (None: unknown), and the position of its event."""

    since: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None


def _key(row: EventRow) -> str | None:
    return row.text("run") if row.text("role") == "recovery" else None


def _fold(_state: AdviceState, row: EventRow) -> AdviceState:
    return AdviceState(
        since=row.position,
        input_tokens=row.maybe_number("input_tokens"),
        output_tokens=row.maybe_number("output_tokens"),
    )


ADVICE = Fold(
    name="advice",
    version=2,
    reads={"ModelCalled": ("run", "role", "input_tokens", "output_tokens")},
    initial=AdviceState(),
    key=_key,
    fold=_fold,
)

ADVICE_SPENT = "spent"
"""The only key of the costs."""


class AdviceCostState(FoldState, frozen=True, kw_only=True):
    """The sum in micro-dollars over `calls` calls, `unknown` of which have no known cost, and the prices in force."""

    book: PriceBook | None = None
    calls: int = 0
    unknown: int = 0
    spent: int = 0


def _cost(book: PriceBook | None, row: EventRow) -> int | None:
    """The cost of a call in micro-dollars, each part rounded down; None if its tokens or the prices are unknown."""
    asked, said = row.maybe_number("input_tokens"), row.maybe_number("output_tokens")
    if book is None or asked is None or said is None:
        return None
    return asked * book.per_thousand_input_tokens // 1_000 + said * book.per_thousand_output_tokens // 1_000


def _fold_cost(state: AdviceCostState, row: EventRow) -> AdviceCostState:
    if row.type == "PriceBookSet":
        return replace(state, book=PriceBook(**{name: row.number(name) for name in BOOK_FIELDS}))
    cost = _cost(state.book, row)
    return replace(
        state, calls=state.calls + 1, unknown=state.unknown + (cost is None), spent=state.spent + (cost or 0)
    )


ADVICE_COSTS = Fold(
    name="advice_costs",
    version=1,
    reads={"PriceBookSet": BOOK_FIELDS, "ModelCalled": ("role", "input_tokens", "output_tokens")},
    initial=AdviceCostState(),
    key=lambda row: ADVICE_SPENT if row.type == "PriceBookSet" or row.text("role") == "recovery" else None,
    fold=_fold_cost,
)
