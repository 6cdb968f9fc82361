"""Costs: the price book in force and what graded runs cost."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import costs as queries
from .as_of import Reading, reply
from .schemas import answer_of

router = APIRouter(prefix="/costs", tags=["costs"])


@router.get("", summary="Prices and sums", responses={200: answer_of(queries.CostAnswer)})
def costs(views: Reading) -> Response:
    """`{"book", "spent", "runs", "unknown", "recovery"}` in micro-dollars; `unknown` counts runs of unknown cost.

    `recovery` is what recovery's model calls cost, which is in no run's cost.
    """
    return reply(queries.show_costs(views))
