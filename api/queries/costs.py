"""Costs: the price book in force, and what was spent."""

from __future__ import annotations

import msgspec

from projections.costs import COSTS, PRICES, SPENT, CostState, PriceBook
from projections.engine.views import Views

from .facts import require


class CostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The price book in force and the sum over graded runs, in micro-dollars; `unknown` counts runs of unknown cost."""

    book: PriceBook | None
    spent: int
    runs: int
    unknown: int


def show_costs(views: Views) -> CostAnswer:
    """The prices and the sums."""
    found = views.find(COSTS)
    book, sums = found.get(PRICES, CostState()).book, found.get(SPENT, CostState())
    return CostAnswer(book=book, spent=sums.spent, runs=sums.runs, unknown=sums.unknown)


def present_prices(views: Views) -> PriceBook:
    """The price book in force. Raises FactMissing."""
    return require(require(views.get(COSTS, PRICES)).book)
