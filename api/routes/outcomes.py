"""Outcomes: how the runs of each sweep went, counted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ..queries import outcomes as queries
from .as_of import LIMIT, HouseOf, Limit, Reading, Wanted, reply
from .errors import Unprocessable
from .schemas import answer_of

router = APIRouter(prefix="/outcomes", tags=["outcomes"])

After = Annotated[str | None, Query(max_length=1000, description="the `next` of the page before")]


@router.get("", summary="Count how runs went", responses={200: answer_of(queries.OutcomePage)})
def list_outcomes(
    house: HouseOf,
    views: Reading,
    sweep: Wanted = None,
    template: Wanted = None,
    limit: Limit = LIMIT,
    after: After = None,
) -> Response:
    """`{"outcomes": [...], "next": text}` by sweep, template, and whether runs carried a candidate."""
    try:
        start = None if after is None else queries.read_place(after)
    except ValueError as error:
        raise Unprocessable(where="after", actual=repr(after), expected="the `next` of a page before") from error
    return reply(queries.list_outcomes(house.frames, views, sweep=sweep, template=template, after=start, limit=limit))
