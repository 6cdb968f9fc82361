"""Costs: the price book in force."""

from __future__ import annotations

from projections.costs import COSTS, PRICES, PriceBook
from projections.engine.views import Views

from .facts import require


def present_prices(views: Views) -> PriceBook:
    """The price book in force."""
    return require(require(views.get(COSTS, PRICES)).book)
