"""Hints, exemplars, snippets and recipes: what was recorded, and how it fared."""

from __future__ import annotations

from fastapi import APIRouter, Response

from eventlog.events import PieceKind
from projections.memories import LOOSE

from ..errors import Unknown
from .problems import Problem
from .reading import Id, Reading, reply


def router_of(kind: PieceKind) -> APIRouter:
    """The endpoints of one kind of piece, under the name of its fold."""
    fold = LOOSE[kind]
    router = APIRouter(prefix=f"/{fold.name}", tags=[fold.name])

    @router.get("", summary=f"List {fold.name}", name=f"list_{fold.name}")
    def list_pieces(views: Reading) -> Response:
        """In order of id: occasion, content (a blob), rule, status and record of each."""
        return reply({fold.name: list(views.find(fold).values())})

    @router.get(
        "/{piece_id:path}",
        summary=f"One {kind} with its history",
        name=f"one_{kind}",
        responses={404: {"model": Problem, "description": f"There is no such {kind}."}},
    )
    def one_piece(views: Reading, piece_id: Id) -> Response:
        """The piece and `"history": [{"since": position, "state": ...}]`, oldest first."""
        state = views.get(fold, piece_id)
        if state is None:
            raise Unknown(what=kind, actual=piece_id, way_out=f"List them with GET /v1/{fold.name}.")
        changes = views.history(fold, piece_id)
        return reply({kind: state, "history": [{"since": item.since, "state": item.state} for item in changes]})

    return router
