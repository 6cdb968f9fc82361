"""The champion: who it is, and how it came to be."""

from __future__ import annotations

from fastapi import APIRouter, Response

from projections.champions import CHAMPION, CHAMPIONS

from ..errors import Unknown
from .problems import Problem
from .reading import Reading, reply

router = APIRouter(prefix="/champion", tags=["champion"])


@router.get(
    "",
    summary="Who is champion",
    responses={404: {"model": Problem, "description": "No champion was pointed at yet."}},
)
def champion(views: Reading) -> Response:
    """`{"champion": ...}`: the artifact, who moved the pointer, why, on what evaluation, since when."""
    state = views.get(CHAMPIONS, CHAMPION)
    if state is None:
        way_out = f"None was pointed at up to position {views.upto}; run `flywheel run`, or `flywheel champion point`."
        raise Unknown(what="champion", actual=CHAMPION, way_out=way_out)
    return reply({"champion": state})


@router.get("/history", summary="Every move of the champion")
def history(views: Reading) -> Response:
    """`{"history": [{"since": position, "state": ...}]}`, oldest first."""
    changes = views.history(CHAMPIONS, CHAMPION)
    return reply({"history": [{"since": change.since, "state": change.state} for change in changes]})
