"""The champion: who it is, and how it came to be."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import champion as queries
from .as_of import LIMIT, AfterPosition, Limit, Reading, reply
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/champion", tags=["champion"])


@router.get(
    "",
    summary="Who is champion",
    responses={200: answer_of(queries.ChampionAnswer), 404: problem_of("No champion was pointed at yet.")},
)
def champion(views: Reading) -> Response:
    """`{"champion": ...}`: the artifact, who moved the pointer, why, on what evaluation, since when."""
    return reply(queries.show_champion(views))


@router.get("/history", summary="Every move of the champion", responses={200: answer_of(queries.ChampionHistory)})
def history(views: Reading, limit: Limit = LIMIT, after: AfterPosition = 0) -> Response:
    """`{"history": [{"since": position, "state": ...}], "next": position}`, oldest first; pass `next` as `after`."""
    return reply(queries.champion_history(views, after=after, limit=limit))
