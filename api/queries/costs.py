"""Costs: the price book in force, and what was spent."""

from __future__ import annotations

import msgspec

from projections.advice import ADVICE_COSTS, ADVICE_SPENT, AdviceCostState
from projections.costs import COSTS, PRICES, SPENT, CostState, PriceBook
from projections.engine.views import Views

from .facts import require
from .untold import find_playing


class RecoveryCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of recovery's model calls in all, in micro-dollars; `unknown` of the `calls` have no known cost."""

    spent: int
    calls: int
    unknown: int


class CostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The price book in force and the sum over graded runs, in micro-dollars; `unknown` counts runs of unknown cost.

    `spent` is null while an evaluation plays: it would tell what each sealed run cost.
    """

    book: PriceBook | None
    spent: int | None
    runs: int
    unknown: int
    recovery: RecoveryCost


def show_costs(views: Views) -> CostAnswer:
    """The prices and the sums."""
    found = views.pick(COSTS, (PRICES, SPENT))
    book, sums = found.get(PRICES, CostState()).book, found.get(SPENT, CostState())
    recovery = recovery_cost(views)
    spent = None if find_playing(views, views) else sums.spent
    return CostAnswer(book=book, spent=spent, runs=sums.runs, unknown=sums.unknown, recovery=recovery)


def recovery_cost(views: Views) -> RecoveryCost:
    """Cost of recovery's model calls in all."""
    state = views.get(ADVICE_COSTS, ADVICE_SPENT) or AdviceCostState()
    return RecoveryCost(spent=state.spent, calls=state.calls, unknown=state.unknown)


def present_prices(views: Views) -> PriceBook:
    """The price book in force. Raises FactMissing."""
    return require(require(views.get(COSTS, PRICES)).book)
