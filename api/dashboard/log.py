"""The log: its newest events as they come, their chain, and how far the projections are behind."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlog.chain import EXACT
from eventlog.store import Position
from projections.engine.views import PostgresViews

from ..queries.events import LoggedEvent, list_events
from ..queries.log_status import check_chain, newest_events, projection_lags
from ..queries.sealed import hide_results
from ..routes.as_of import HouseOf, Reading
from ..routes.roles import ALL_RESULTS
from .pages import render_page

router = APIRouter()

PAGE = 50
MOST_NEW = 100
"""Events that one look of the live tail brings."""

Name = Annotated[str, Query(max_length=200)]
Place = Annotated[int | None, Query(ge=0, le=EXACT)]


@router.get("/log")
def log(
    request: Request,
    house: HouseOf,
    views: Reading,
    stream: Name = "",
    kind: Name = "",
    after: Place = None,
    before: Place = None,
) -> Response:
    """The newest events, those before a position, or those of a stream or type from its start."""
    upto = views.upto if before is None else Position(min(before, views.upto))
    is_chosen = bool(stream or kind)
    if is_chosen:
        page = list_events(house.store, upto, after=after or 0, limit=PAGE, stream=stream or None, kind=kind or None)
    else:
        page = newest_events(house.store, upto, PAGE)
    is_live = not is_chosen and before is None and "as_of" not in request.query_params
    return render_page(
        request,
        "log.html",
        area="log",
        position=views.upto,
        events=_tell(request, views, page.events),
        following=page.next,
        stream=stream,
        kind=kind,
        is_chosen=is_chosen,
        is_live=is_live,
        chain=check_chain(house.store, upto),
        lags=projection_lags(views),
    )


@router.get("/parts/tail")
def tail(request: Request, house: HouseOf, after: Place = 0) -> Response:
    """The events after a position, newest first, and where to look next."""
    head = house.store.head()
    page = list_events(house.store, head, after=after or 0, limit=MOST_NEW)
    last = page.events[-1].position if page.events else after or 0
    told = _tell(request, house.views(head), page.events)
    return render_page(request, "parts/tail.html", events=told[::-1], last=last)


def _tell(request: Request, views: PostgresViews, logged: tuple[LoggedEvent, ...]) -> tuple[LoggedEvent, ...]:
    """The events that a visitor may read: results of sealed runs only as an admin, while their benchmark can judge."""
    return logged if request.state.role == ALL_RESULTS else hide_results(views, logged)
