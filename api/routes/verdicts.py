"""Verdicts: what the gate decided, with every number that decided it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from projections.verdicts import VERDICTS

from ..errors import Unknown
from .problems import Problem
from .reading import Id, Reading, reply

router = APIRouter(prefix="/verdicts", tags=["verdicts"])


@router.get("", summary="List evaluations and their verdicts")
def list_verdicts(views: Reading) -> Response:
    """`{"verdicts": [...]}` in order of evaluation; `verdict` is null while the arms are still playing."""
    return reply({"verdicts": list(views.find(VERDICTS).values())})


@router.get(
    "/{evaluation:path}",
    summary="The verdict of one evaluation",
    responses={404: {"model": Problem, "description": "There is no such evaluation."}},
)
def one_verdict(views: Reading, evaluation: Id) -> Response:
    """`{"verdict": ...}`: artifacts, rules, decision and numbers."""
    state = views.get(VERDICTS, evaluation)
    if state is None:
        raise Unknown(what="evaluation", actual=evaluation, way_out="List them with GET /v1/verdicts.")
    return reply({"verdict": state})
