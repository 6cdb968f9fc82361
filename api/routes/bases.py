"""Base models: those that were added from outside, with licence, source and digest."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import bases as queries
from .as_of import LIMIT, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/bases", tags=["bases"])

After = Annotated[str | None, sorted_after(64, "bases whose digest sorts after this")]


@router.get("", summary="List base models", responses={200: answer_of(queries.BaseList)})
def list_bases(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"bases": [...], "next": digest}` in order of digest: pass `next` as `after` for the following page."""
    return reply(queries.list_bases(views, after=after, limit=limit))


@router.get(
    "/{base:path}",
    summary="One base model",
    responses={200: answer_of(queries.BaseAnswer), 404: problem_of("There is no such base.")},
)
def one_base(views: Reading, base: Id) -> Response:
    """`{"base": ...}`, by its name, its digest, or at least the first eight digits of it."""
    return reply(queries.show_base(views, base))
