"""Plan-rewrites: what was proposed, and how well it worked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import pieces as queries
from .as_of import LIMIT, AfterPosition, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/rewrites", tags=["rewrites"])

After = Annotated[str | None, sorted_after(200, "rewrites whose id sorts after this")]


@router.get("", summary="List rewrites", responses={200: answer_of(queries.RewriteList)})
def list_rewrites(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"rewrites": [...], "next": id}` in order of id: anchor, change, rule, status and record of each.

    Pass `next` as `after` for the following page.
    """
    return reply(queries.find_pieces(views, "rewrite", after=after, limit=limit))


@router.get(
    "/{rewrite_id:path}",
    summary="One rewrite with its history",
    responses={200: answer_of(queries.RewriteAnswer), 404: problem_of("There is no such rewrite.")},
)
def one_rewrite(views: Reading, rewrite_id: Id, limit: Limit = LIMIT, after: AfterPosition = 0) -> Response:
    """`{"rewrite": ..., "history": [{"since": position, "state": ...}], "next": position}`, oldest first."""
    return reply(queries.show_piece(views, "rewrite", rewrite_id, after=after, limit=limit))
