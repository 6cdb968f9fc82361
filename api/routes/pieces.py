"""Pieces of every kind but rewrites: what was recorded, and how well it worked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from eventlog.events import PieceKind
from projections.memories import LOOSE

from ..queries import pieces as queries
from .as_of import LIMIT, AfterPosition, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

After = Annotated[str | None, sorted_after(200, "pieces whose id sorts after this")]


def router_of(kind: PieceKind) -> APIRouter:
    """The endpoints of one kind of piece, under the name of its fold."""
    fold = LOOSE[kind]
    router = APIRouter(prefix=f"/{fold.name}", tags=[fold.name])

    @router.get(
        "",
        summary=f"List {fold.name}",
        name=f"list_{fold.name}",
        responses={200: answer_of(queries.LISTS[kind])},
    )
    def list_pieces(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
        """In order of id: occasion, content (a blob), rule, status and record of each; pass `next` as `after`."""
        return reply(queries.find_pieces(views, kind, after=after, limit=limit))

    @router.get(
        "/{piece_id:path}",
        summary=f"One {kind} with its history",
        name=f"one_{kind}",
        responses={200: answer_of(queries.SINGLES[kind]), 404: problem_of(f"There is no such {kind}.")},
    )
    def one_piece(views: Reading, piece_id: Id, limit: Limit = LIMIT, after: AfterPosition = 0) -> Response:
        """The piece and `"history": [{"since": position, "state": ...}], "next": position`, oldest first."""
        return reply(queries.show_piece(views, kind, piece_id, after=after, limit=limit))

    return router
