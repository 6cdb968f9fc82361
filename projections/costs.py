"""Costs: the price book in force, and the total cost of graded runs, each counted once. Unknown costs are counted."""

from __future__ import annotations

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState

PRICES = "prices"
SPENT = "spent"


class PriceBook(FoldState, frozen=True, kw_only=True):
    """Prices in micro-dollars for an action, a second, a thousand tokens."""

    version: int
    per_action: int
    per_second: int
    per_thousand_input_tokens: int
    per_thousand_output_tokens: int


class CostState(FoldState, frozen=True, kw_only=True):
    """The price book (key `prices`), or the sums in micro-dollars (key `spent`)."""

    book: PriceBook | None = None
    spent: int = 0
    runs: int = 0
    unknown: int = 0


BOOK_FIELDS = ("version", "per_action", "per_second", "per_thousand_input_tokens", "per_thousand_output_tokens")


def _fold(state: CostState, row: EventRow) -> CostState:
    if row.type == "PriceBookSet":
        return replace(state, book=PriceBook(**{name: row.number(name) for name in BOOK_FIELDS}))
    if row.flag("again"):
        return state  # a regrade: the run's cost was counted with its first grade
    cost = row.maybe_number("cost")
    return replace(
        state, runs=state.runs + 1, spent=state.spent + (cost or 0), unknown=state.unknown + (1 if cost is None else 0)
    )


COSTS = Fold(
    name="costs",
    version=3,
    reads={"PriceBookSet": BOOK_FIELDS, "RewardGraded": ("cost", "again")},
    initial=CostState(),
    key=lambda row: PRICES if row.type == "PriceBookSet" else SPENT,
    fold=_fold,
)
