"""Champions: every move of the pointer, the whole state as of any position, and what changed between two."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlog.chain import EXACT
from eventlog.store import Position

from ..house import House
from ..positions import time_of
from ..queries.champion import champion_history
from ..queries.difference import show_difference
from ..queries.evaluations import list_benchmark_ledgers
from ..queries.overview import show_overview
from ..routes.as_of import HouseOf, Reading
from .pages import render_page

router = APIRouter()

MOST_MOVES = 50
Place = Annotated[int | None, Query(ge=0, le=EXACT)]


@router.get("/champions")
def champions(
    request: Request, house: HouseOf, views: Reading, at: Place = None, earlier: Place = None, later: Place = None
) -> Response:
    """The moves of the champion, the state at a position, and the difference between two, where they are asked for."""
    moves = champion_history(views).history[-MOST_MOVES:][::-1]
    head = int(views.upto)
    place = head if at is None else min(at, head)
    start = moves[0].since if moves else 0
    first = min(start if earlier is None else earlier, head)
    last = max(first, head if later is None else min(later, head))
    return render_page(
        request,
        "champions.html",
        area="champions",
        position=views.upto,
        moves=moves,
        head=head,
        place=place,
        first=first,
        last=last,
        **_state_at(house, place),
        difference=_difference(house, first, last) if earlier is not None else None,
    )


@router.get("/parts/state")
def state_part(request: Request, house: HouseOf, at: Place = 0) -> Response:
    """The whole state as of a position, for the slider."""
    return render_page(request, "parts/state.html", **_state_at(house, at or 0))


@router.get("/parts/difference")
def difference_part(request: Request, house: HouseOf, earlier: Place = 0, later: Place = 0) -> Response:
    """Changes between two positions, as a part of a page."""
    first, last = sorted((earlier or 0, later or 0))
    return render_page(request, "parts/difference.html", difference=_difference(house, first, last))


def _state_at(house: House, place: int) -> dict[str, Any]:
    """The state as of a position, as pages show it."""
    views = house.views(Position(place))
    at = time_of(house.store, views.upto) if place else None
    return {"loop": show_overview(views), "ledgers": list_benchmark_ledgers(views), "at": at}


def _difference(house: House, first: int, last: int) -> object:
    """Without the counts of runs, which would be read one by one; `flywheel diff` has those."""
    return show_difference(house.views(Position(first)), house.views(Position(last)), counts_runs=False).diff
