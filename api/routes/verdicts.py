"""Verdicts: what the gate decided, with every number that decided it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import verdicts as queries
from .problems import problem_of
from .reading import Id, Reading, reply
from .schemas import answer_of

router = APIRouter(prefix="/verdicts", tags=["verdicts"])


@router.get("", summary="List evaluations and their verdicts", responses={200: answer_of(queries.VerdictList)})
def list_verdicts(views: Reading) -> Response:
    """`{"verdicts": [...]}` in order of evaluation; `verdict` is null while the arms are still playing."""
    return reply(queries.list_verdicts(views))


@router.get(
    "/{evaluation:path}",
    summary="The verdict of one evaluation",
    responses={200: answer_of(queries.VerdictAnswer), 404: problem_of("There is no such evaluation.")},
)
def one_verdict(views: Reading, evaluation: Id) -> Response:
    """`{"verdict": ...}`: artifacts, rules, decision and numbers."""
    return reply(queries.show_verdict(views, evaluation))
