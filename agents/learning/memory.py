"""Memory of an artifact: the pieces promoted at a log position, as canonical bytes with a digest. Pure over views.

All pieces but rewrites are stored by content address, so erasing a content changes no digest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from eventlog.blobs import Blob, BlobStore
from eventlog.chain import canonical
from eventlog.errors import BlobErased
from eventlog.events import Anchor, Artifact, Memory, MemoryScope, Occasion, PieceKind
from projections.candidacy import Candidacy, is_cold, worth
from projections.engine.views import Views
from projections.memories import FOLDS, LOOSE, piece_kind
from projections.pieces import PieceState
from projections.rewrites import REWRITES, RewriteState

from ..plans import Piece
from .memory_scope import compose_content
from .occasions import CHANGE, AnyPiece, OccasionPiece, Read, text_and_change
from .similarity import Embeddings

_WHOLE: Final = 1_000_000
_RANKED: Final = frozenset({"hint", "exemplar"})
"""Kinds whose pieces record a base rank; the rank of other kinds depends on evidence alone."""

MEDIA_TYPE = "application/vnd.flywheel.memory+json"
EVERY_KIND: Final[frozenset[PieceKind]] = frozenset(FOLDS)
_KEYS: Final[Mapping[PieceKind, str]] = {kind: f"{kind}s" for kind in LOOSE}
_REMADE: Final = {
    REWRITES.name: frozenset({1, 2, 3, REWRITES.version}),
    **{fold.name: frozenset({1, 2, fold.version}) for fold in LOOSE.values()},
}
"""Fold versions that rebuild a memory to the same bytes: rewrites 2 applies the seeds' rule as version 1 did. The last
two of each leave out what was disowned, and nothing was disowned before them. Only the last one applies rules with a
fast lane or the seed as the unit, and no piece had such a rule before it."""


def piece_of(state: RewriteState) -> Piece:
    """Piece of memory built from a rewrite's row."""
    return Piece(
        piece=state.rewrite,
        anchor=Anchor.model_validate(state.anchor),
        change=CHANGE.validate_python(state.change, strict=False),
        wins=state.wins,
        confidence=state.confidence,
    )


def load_piece(state: Candidacy, read: Read, embeddings: Embeddings | None = None) -> AnyPiece | None:
    """Piece built from a row of any kind, matched by `embeddings` if given; None if its content was erased."""
    if isinstance(state, RewriteState):
        return piece_of(state)
    if isinstance(state, PieceState):
        return _lesson(piece_kind(state), _plain_lesson(state), read, embeddings)
    return None


def content_reader(blobs: BlobStore) -> Read:
    """Reader of blob contents that returns None for erased ones."""

    def read(address: str) -> bytes | None:
        try:
            return blobs.get(address).body
        except BlobErased:
            return None

    return read


def build_memory_artifact(
    views: Views,
    weights: str,
    *,
    without: Collection[str] = (),
    now: datetime | None = None,
    kinds: Collection[PieceKind] = EVERY_KIND,
    embeddings: Embeddings | None = None,
) -> tuple[Artifact, Blob]:
    """Artifact of these weights with the pieces promoted at the views' position, and the blob of its memory.

    Pieces in `without` and those that are cold at `now` (None: none is) are left out; the artifact lists those of them
    that were promoted. Only pieces of these `kinds` are included. The artifact names the fold of each kind that has
    promoted pieces, the fold of rewrites if `kinds` has it, and the embedding model that matches the memory.
    """
    content, folds, left_out = _fold_content(views, without, now, kinds)
    artifact, blob = _artifact(weights, int(views.upto), content, folds, left_out)
    return _matched_by(artifact, embeddings), blob


def build_scoped_memory(
    views: Views,
    weights: str,
    memory: Memory,
    base: bytes,
    scope: MemoryScope,
    *,
    embeddings: Embeddings | None = None,
) -> tuple[Artifact, Blob]:
    """Artifact of these weights with a memory, whose content is `base`, and the differences of a scope."""
    today, folds, _left_out = _fold_content(views, (), None, EVERY_KIND)
    content = compose_content(json.loads(base), today, scope.entered, scope.left)
    artifact, blob = _artifact(weights, int(views.upto), content, {**memory.folds, **folds}, ())
    scoped = artifact.model_copy(update={"memory": artifact.memory.model_copy(update={"scope": scope})})
    return _matched_by(scoped, embeddings), blob


def _matched_by(artifact: Artifact, embeddings: Embeddings | None) -> Artifact:
    if embeddings is None:
        return artifact
    memory = artifact.memory.model_copy(update={"embeddings": embeddings.digest})
    return artifact.model_copy(update={"memory": memory})


def _fold_content(
    views: Views, without: Collection[str], now: datetime | None, kinds: Collection[PieceKind]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int], tuple[str, ...]]:
    """Entries of the promoted pieces by kind, the folds they come from, and the promoted pieces that are left out."""
    content: dict[str, list[dict[str, Any]]] = {"rewrites": []}
    folds = {REWRITES.name: REWRITES.version} if "rewrite" in kinds else {}
    left_out: list[str] = []
    for kind, fold in FOLDS.items():
        if kind not in kinds:
            continue
        promoted = {key: state for key, state in views.find(fold).items() if state.status == "promoted"}
        if promoted:
            folds[fold.name] = fold.version
        gone = {key for key, state in promoted.items() if key in without or (now is not None and is_cold(state, now))}
        left_out += gone
        kept = [_plain(promoted[key]) for key in sorted(promoted) if key not in gone]
        if kept:
            content["rewrites" if kind == "rewrite" else _KEYS[kind]] = kept
    return content, folds, tuple(sorted(left_out))


def rebuild_memory(views: Views, weights: str, memory: Memory, base: bytes | None = None) -> Blob | None:
    """Content of a memory rebuilt from the log at its position; None if today's folds have other versions.

    A memory with a scope is rebuilt on `base`, the content that its scope names; None without it.
    """
    kinds = {kind for kind, fold in FOLDS.items() if fold.name in memory.folds}
    if any(version not in _REMADE.get(name, ()) for name, version in memory.folds.items()):
        return None
    if memory.scope is None:
        return build_memory_artifact(views, weights, without=memory.without, kinds=kinds)[1]
    return None if base is None else build_scoped_memory(views, weights, memory, base, memory.scope)[1]


def forget_everything(weights: str) -> tuple[Artifact, Blob]:
    """Artifact of these weights with empty memory, the first champion."""
    return _artifact(weights, 0, {"rewrites": []}, {REWRITES.name: REWRITES.version}, ())


def pieces_from(content: bytes, read: Read, embeddings: Embeddings | None = None) -> tuple[AnyPiece, ...]:
    """Pieces in a memory blob, rewrites first. Pieces whose content `read` returns None for are left out."""
    found = json.loads(content)
    lessons = (_lesson(kind, item, read, embeddings) for kind in LOOSE for item in found.get(_KEYS[kind], ()))
    return (*(_piece(item) for item in found["rewrites"]), *(each for each in lessons if each is not None))


def erased_in(content: bytes, read: Read) -> tuple[str, ...]:
    """Ids of the pieces of a memory blob whose content was erased; applying the memory leaves them out."""
    found = json.loads(content)
    items = (item for key in _KEYS.values() for item in found.get(key, ()))
    return tuple(item["piece"] for item in items if read(item["content"]) is None)


def _artifact(
    weights: str,
    upto: int,
    content: Mapping[str, list[dict[str, Any]]],
    folds: dict[str, int],
    without: tuple[str, ...],
) -> tuple[Artifact, Blob]:
    blob = Blob(MEDIA_TYPE, canonical(content))
    return Artifact(weights=weights, memory=Memory(upto=upto, folds=folds, without=without, digest=blob.digest)), blob


def _plain(state: Candidacy) -> dict[str, Any]:
    if isinstance(state, PieceState):
        return _plain_lesson(state)
    if not isinstance(state, RewriteState):
        raise TypeError(f"{type(state).__name__} is not a piece of memory")
    piece = piece_of(state)
    return {
        "piece": piece.piece,
        "anchor": piece.anchor.model_dump(mode="json"),
        "change": piece.change.model_dump(mode="json"),
        "wins": piece.wins,
        "confidence": piece.confidence,
    }


def _plain_lesson(state: PieceState) -> dict[str, Any]:
    """JSON of an occasion piece's row; its rank is the base rank times the piece's worth in trials."""
    return {
        "piece": state.piece,
        "occasion": state.occasion,
        "content": state.content,
        "title": state.title,
        "wins": state.wins,
        "rank": (max(0, state.rank) if state.kind in _RANKED else _WHOLE) * worth(state) // _WHOLE,
    }


def _lesson(
    kind: PieceKind, item: Mapping[str, Any], read: Read, embeddings: Embeddings | None
) -> OccasionPiece | None:
    content = read(item["content"])
    if content is None:
        return None
    text, change = text_and_change(content)
    return OccasionPiece(
        piece=item["piece"],
        kind=kind,
        occasion=Occasion.model_validate(item["occasion"]),
        change=change,
        text=text,
        title=item["title"],
        wins=item["wins"],
        rank=item["rank"],
        embeddings=embeddings,
    )


def _piece(item: dict[str, Any]) -> Piece:
    return Piece(
        piece=item["piece"],
        anchor=Anchor.model_validate(item["anchor"]),
        change=CHANGE.validate_python(item["change"], strict=False),
        wins=item["wins"],
        confidence=item["confidence"],
    )
