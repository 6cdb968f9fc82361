"""Verdicts: what the gate decided, with every number that decided it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import verdicts as queries
from .as_of import LIMIT, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/verdicts", tags=["verdicts"])

After = Annotated[str | None, sorted_after(200, "evaluations whose name sorts after this")]


@router.get("", summary="List evaluations and their verdicts", responses={200: answer_of(queries.VerdictList)})
def list_verdicts(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"verdicts": [...], "next": evaluation}` in order of evaluation: pass `next` as `after` for the following page.

    `verdict` is null while the arms are still playing.
    """
    return reply(queries.list_verdicts(views, after=after, limit=limit))


@router.get(
    "/{evaluation:path}",
    summary="The verdict of one evaluation",
    responses={200: answer_of(queries.VerdictAnswer), 404: problem_of("There is no such evaluation.")},
)
def one_verdict(views: Reading, evaluation: Id) -> Response:
    """`{"verdict": ...}`: artifacts, rules, decision and numbers."""
    return reply(queries.show_verdict(views, evaluation))
