"""Plan-rewrites: what was proposed, and how well it worked."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import pieces as queries
from .problems import problem_of
from .reading import Id, Reading, reply
from .schemas import answer_of

router = APIRouter(prefix="/rewrites", tags=["rewrites"])


@router.get("", summary="List rewrites", responses={200: answer_of(queries.RewriteList)})
def list_rewrites(views: Reading) -> Response:
    """`{"rewrites": [...]}` in order of id: anchor, change, rule, status and record of each."""
    return reply(queries.find_pieces(views, "rewrite"))


@router.get(
    "/{rewrite_id:path}",
    summary="One rewrite with its history",
    responses={200: answer_of(queries.RewriteAnswer), 404: problem_of("There is no such rewrite.")},
)
def one_rewrite(views: Reading, rewrite_id: Id) -> Response:
    """`{"rewrite": ..., "history": [{"since": position, "state": ...}]}`, oldest first."""
    return reply(queries.show_piece(views, "rewrite", rewrite_id))
