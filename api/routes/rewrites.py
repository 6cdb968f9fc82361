"""Plan-rewrites: what was proposed, and how it fared."""

from __future__ import annotations

from fastapi import APIRouter, Response

from projections.rewrites import REWRITES

from ..errors import Unknown
from .problems import Problem
from .reading import Id, Reading, reply

router = APIRouter(prefix="/rewrites", tags=["rewrites"])


@router.get("", summary="List rewrites")
def list_rewrites(views: Reading) -> Response:
    """`{"rewrites": [...]}` in order of id: anchor, change, rule, status and record of each."""
    return reply({"rewrites": list(views.find(REWRITES).values())})


@router.get(
    "/{rewrite_id:path}",
    summary="One rewrite with its history",
    responses={404: {"model": Problem, "description": "There is no such rewrite."}},
)
def one_rewrite(views: Reading, rewrite_id: Id) -> Response:
    """`{"rewrite": ..., "history": [{"since": position, "state": ...}]}`, oldest first."""
    state = views.get(REWRITES, rewrite_id)
    if state is None:
        raise Unknown(what="rewrite", actual=rewrite_id, way_out="List them with GET /v1/rewrites.")
    changes = views.history(REWRITES, rewrite_id)
    return reply({"rewrite": state, "history": [{"since": item.since, "state": item.state} for item in changes]})
