"""Changes in meaning between two positions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from eventlog.store import Position
from projections.errors import NotThereYet

from ..queries import difference as queries
from .as_of import HouseOf, Reading, mark, position_of, reply
from .schemas import answer_of

router = APIRouter(prefix="/diff", tags=["diff"])

From = Annotated[str, Query(alias="from", max_length=40, description="the earlier position, or a time")]
To = Annotated[str | None, Query(alias="to", max_length=40, description="the later one; default: `as_of`, or the head")]


@router.get("", summary="What changed between two positions", responses={200: answer_of(queries.DifferenceAnswer)})
def diff(request: Request, house: HouseOf, views: Reading, start: From, end: To = None) -> Response:
    """`{"diff": {"before", "after", ...}}`, in sections: champion, rewrites, runs, failures and so on.

    What did not change is null or empty. Rates are in millionths, costs in micro-dollars.
    """
    earlier, later = position_of(house.store, start) or Position(0), position_of(house.store, end)
    wanted = views.upto if later is None else later
    for position in (earlier, wanted):
        if position > views.upto:
            raise NotThereYet(expected=position, actual=views.upto)
    mark(request, wanted)
    return reply(queries.show_difference(house.views(earlier), house.views(wanted)))
