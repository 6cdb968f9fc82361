"""Costs: the price book in force and what graded runs cost."""

from __future__ import annotations

from fastapi import APIRouter, Response

from projections.costs import COSTS, PRICES, SPENT, CostState

from .reading import Reading, reply

router = APIRouter(prefix="/costs", tags=["costs"])


@router.get("", summary="Prices and sums")
def costs(views: Reading) -> Response:
    """`{"book", "spent", "runs", "unknown"}` in micro-dollars; `unknown` counts runs whose cost is not known."""
    found = views.find(COSTS)
    book, sums = found.get(PRICES, CostState()).book, found.get(SPENT, CostState())
    return reply({"book": book, "spent": sums.spent, "runs": sums.runs, "unknown": sums.unknown})
