"""Memory as an artifact: what folds at a position hold, as canonical bytes with a digest. Pure over views."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from pydantic import TypeAdapter

from eventlog.blobs import Blob
from eventlog.chain import canonical
from eventlog.events import Anchor, Artifact, Change, Memory
from projections.rewrites import REWRITES, RewriteState
from projections.views import Views

from ..plans import Piece

MEDIA_TYPE = "application/vnd.flywheel.memory+json"
_FOLDS = {REWRITES.name: REWRITES.version}
REMADE = tuple({REWRITES.name: version} for version in (1, REWRITES.version))
"""Versions of folds whose memory is made again to the same bytes: 2 decides by the seeds' rule as 1 did."""
_CHANGE: TypeAdapter[Change] = TypeAdapter(Change)


def piece_of(state: RewriteState) -> Piece:
    """A rewrite's row as a piece of memory."""
    return Piece(
        piece=state.rewrite,
        anchor=Anchor.model_validate(state.anchor),
        change=_CHANGE.validate_python(state.change),
        wins=state.wins,
        confidence=state.confidence,
    )


def remember(views: Views, weights: str, *, without: Collection[str] = ()) -> tuple[Artifact, Blob]:
    """The artifact of these weights with what was promoted at the views' position, and the blob of its content.

    `without` names pieces that stay out; those that would have been in are written down in the artifact.
    """
    states = [state for state in views.find(REWRITES).values() if state.status == "promoted"]
    pieces = [piece_of(state) for state in states if state.rewrite not in without]
    left_out = tuple(sorted(state.rewrite for state in states if state.rewrite in without))
    return _artifact(weights, int(views.upto), pieces, left_out)


def forget_everything(weights: str) -> tuple[Artifact, Blob]:
    """The artifact of these weights with empty memory: the first champion."""
    return _artifact(weights, 0, [], ())


def pieces_from(content: bytes) -> tuple[Piece, ...]:
    """The pieces of a memory blob."""
    return tuple(_piece(item) for item in json.loads(content)["rewrites"])


def _artifact(weights: str, upto: int, pieces: list[Piece], without: tuple[str, ...]) -> tuple[Artifact, Blob]:
    content = {"rewrites": [_plain(piece) for piece in sorted(pieces, key=lambda piece: piece.piece)]}
    blob = Blob(MEDIA_TYPE, canonical(content))
    return Artifact(weights=weights, memory=Memory(upto=upto, folds=_FOLDS, without=without, digest=blob.digest)), blob


def _plain(piece: Piece) -> dict[str, Any]:
    return {
        "piece": piece.piece,
        "anchor": piece.anchor.model_dump(mode="json"),
        "change": piece.change.model_dump(mode="json"),
        "wins": piece.wins,
        "confidence": piece.confidence,
    }


def _piece(item: dict[str, Any]) -> Piece:
    return Piece(
        piece=item["piece"],
        anchor=Anchor.model_validate(item["anchor"]),
        change=_CHANGE.validate_python(item["change"]),
        wins=item["wins"],
        confidence=item["confidence"],
    )
