"""The log as a whole: its head, its counts, and the events in it that were forged."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ..queries import log_status as queries
from .as_of import LIMIT, AfterPosition, Bound, HouseOf, Limit, Reading, mark, reply
from .schemas import answer_of

router = APIRouter(prefix="/log", tags=["log"])


@router.get("", summary="The head of the log", responses={200: answer_of(queries.HeadAnswer)})
def head(house: HouseOf, upto: Bound) -> Response:
    """`{"position", "chain"}`: the last position and the chain digest there."""
    return reply(queries.chain_head(house.store, upto))


@router.get("/counts", summary="Events by type", responses={200: answer_of(queries.CountAnswer)})
def counts(request: Request, house: HouseOf) -> Response:
    """`{"events": {type: number}}`, of the whole log. It takes longer the longer the log is."""
    mark(request, house.store.head())
    return reply(queries.count_events(house.store))


@router.get("/forged", summary="Forged events", responses={200: answer_of(queries.ForgedPage)})
def page_forged(views: Reading, limit: Limit = LIMIT, after: AfterPosition = 0) -> Response:
    """`{"events": [...], "next": position}`: those that their actor may not have written, and were not disowned."""
    return reply(queries.list_forged(views, after=after, limit=limit))
