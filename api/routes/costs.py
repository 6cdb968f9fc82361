"""Costs: the price book in force and what graded runs cost."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import costs as queries
from .reading import Reading, reply
from .schemas import answer_of

router = APIRouter(prefix="/costs", tags=["costs"])


@router.get("", summary="Prices and sums", responses={200: answer_of(queries.CostAnswer)})
def costs(views: Reading) -> Response:
    """`{"book", "spent", "runs", "unknown"}` in micro-dollars; `unknown` counts runs whose cost is not known."""
    return reply(queries.show_costs(views))
