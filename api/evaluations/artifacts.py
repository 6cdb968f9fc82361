"""Resolves artifact names such as `base@12`: weights (`base` or a checkpoint) with the memory at a position."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from agents.learning.memory import (
    build_memory_artifact,
    build_scoped_memory,
    content_reader,
    erased_in,
    forget_everything,
    pieces_from,
)
from agents.learning.memory_scope import entries_of
from agents.plans import Piece
from eventlog.blobs import Blob
from eventlog.errors import BlobMissing
from eventlog.events import Artifact, MemoryScope
from eventlog.store import Position
from projections.champions import CHAMPION, CHAMPIONS
from projections.checkpoints import WEIGHTS
from projections.engine.decoders import convert
from projections.engine.views import PostgresViews, Views
from projections.errors import NotThereYet
from projections.memories import candidacies
from projections.verdicts import VERDICTS

from ..course import BASE
from ..errors import BadArtifactName, Unknown
from ..house import House
from ..queries.champion import present_champion

if TYPE_CHECKING:
    from agents.learning.similarity import Embeddings

_NAME = re.compile(r"(base|ck-[0-9a-f]{8,64})@(\d+)")


class ArtifactPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece that an artifact remembers; `change` is null for erased content and for lessons in words."""

    piece: str
    kind: str
    step: str
    change: dict[str, Any] | None
    wins: int


class ArtifactScope(msgspec.Struct, frozen=True, kw_only=True):
    """How a memory differs from the one that is the blob `base`: the pieces that entered it and those that left."""

    base: str
    entered: tuple[str, ...]
    left: tuple[str, ...]


class ArtifactMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory: its position, its folds and their versions, what it leaves out, and the digest of its content.

    Without `embeddings` its pieces are matched by words only; without `scope` it is no difference from another one.
    """

    upto: int
    folds: dict[str, int]
    without: tuple[str, ...]
    digest: str
    embeddings: str | None = None
    scope: ArtifactScope | None = None


class ArtifactFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Weights (`base` or the digest of a checkpoint) and a memory."""

    weights: str
    memory: ArtifactMemory


class ArtifactAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact by its name: its weights and its memory, and what it remembers.

    One that was champion or judged is told as it was recorded; any other names no `embeddings`.
    """

    name: str
    artifact: ArtifactFacts
    pieces: tuple[ArtifactPiece, ...]


def show_artifact(house: House, views: PostgresViews, name: str) -> ArtifactAnswer:
    """An artifact and what it remembers, by a name known at the views' position.

    Reads no embedding model: the answer depends on the log alone. Raises BadArtifactName, Unknown, NotThereYet,
    BlobErased.
    """
    artifact, memory = _resolve(house, name, views, lambda: None)
    alike = (artifact.weights, artifact.memory.upto, artifact.memory.digest)
    recorded = _recorded_artifacts(views)
    told = next((each for each in recorded if (each.weights, each.memory.upto, each.memory.digest) == alike), artifact)
    pieces = tuple(ArtifactPiece(**piece) for piece in list_pieces(house, memory))
    facts = convert(told.model_dump(mode="json"), ArtifactFacts)
    return ArtifactAnswer(name=str(artifact), artifact=facts, pieces=pieces)


def resolve_artifact(house: House, name: str, known: PostgresViews | None = None) -> tuple[Artifact, Blob]:
    """Resolve a name to an artifact and its memory blob, with the embeddings of the current settings.

    A champion or challenger whose memory has a scope is found by the name that it was recorded with, in the `known`
    views (None: those of the head). Raises BadArtifactName, Unknown, NotThereYet, and as House.embeddings.
    """
    return _resolve(house, name, house.views() if known is None else known, lambda: house.embeddings)


def _resolve(
    house: House, name: str, views: PostgresViews, embeddings: Callable[[], Embeddings | None]
) -> tuple[Artifact, Blob]:
    """See `resolve_artifact`. The embedding model is asked for only where a memory is built."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise BadArtifactName(actual=name)
    weights, upto = _weights(views, found[1]), int(found[2])
    if upto == 0:
        return forget_everything(weights)
    if upto > views.upto:
        raise NotThereYet(expected=upto, actual=int(views.upto))
    for recorded in _recorded_artifacts(views):
        if recorded.memory.scope is not None and (recorded.weights, recorded.memory.upto) == (weights, upto):
            return recorded, house.blobs.get(recorded.memory.digest)
    return build_memory_artifact(house.views(Position(upto)), weights, embeddings=embeddings())


def _weights(views: Views, name: str) -> str:
    """`base`, or the full digest of the only checkpoint with this prefix. Raises Unknown."""
    if name == BASE:
        return name
    known = _known_weights(views)
    found = [digest for digest in known if digest.startswith(name.removeprefix("ck-"))]
    if len(found) == 1:
        return found[0]
    way_out = "Give more of its digest." if found else f"Known are {', '.join(known) or 'none'}, and always `base`."
    raise Unknown(what="checkpoint", actual=name, way_out=way_out)


def _known_weights(views: Views) -> list[str]:
    """Digests of all weights that were saved, champion or judged, sorted."""
    return sorted({*views.find(WEIGHTS), *(artifact.weights for artifact in _recorded_artifacts(views))} - {BASE})


def _recorded_artifacts(views: Views) -> Iterator[Artifact]:
    """Every artifact that was champion, or that an evaluation compared."""
    for change in views.history(CHAMPIONS, CHAMPION):
        if change.state is not None:
            yield change.state.pointed_artifact()
    for state in views.find(VERDICTS).values():
        yield from state.artifacts()


def challenger(house: House, name: str) -> tuple[Artifact, Blob]:
    """Resolve a challenger without quarantined pieces, so an old name cannot restore a piece removed by a rollback."""
    artifact, _blob = resolve_artifact(house, name)
    if artifact.memory.upto == 0:
        return forget_everything(artifact.weights)
    quarantined = {key for key, state in candidacies(house.views()).items() if state.status == "quarantined"}
    views = house.views(Position(artifact.memory.upto))
    scope = artifact.memory.scope
    if scope is not None:
        base = house.blobs.get(scope.base).body
        without = MemoryScope(
            base=scope.base,
            entered=tuple(name for name in scope.entered if name not in quarantined),
            left=tuple(sorted({*scope.left, *(quarantined & entries_of(base).keys())})),
        )
        model = house.embeddings_of(artifact.memory)
        return build_scoped_memory(views, artifact.weights, artifact.memory, base, without, embeddings=model)
    return build_memory_artifact(views, artifact.weights, without=quarantined, embeddings=house.embeddings)


def champion_with_weights(house: House, weights: str) -> tuple[Artifact, Blob]:
    """The champion's memory with other weights. Raises FactMissing, BlobMissing."""
    memory = present_champion(house.views()).pointed_artifact().memory
    if memory.upto == 0:
        return forget_everything(weights)
    return Artifact(weights=weights, memory=memory), house.blobs.get(memory.digest)


def list_pieces(house: House, memory: Blob) -> list[dict[str, Any]]:
    """Pieces in a memory, which need not be stored; `change` is null for erased content and for lessons in words.

    Raises BlobErased if the memory itself was erased.
    """
    read = content_reader(house.blobs)
    with suppress(BlobMissing):
        memory = house.blobs.get(memory.digest)
    kept: list[dict[str, Any]] = [
        {
            "piece": piece.piece,
            "kind": piece.kind,
            "step": piece.anchor.intent if isinstance(piece, Piece) else piece.occasion.intent,
            "change": None if piece.change is None else piece.change.model_dump(mode="json"),
            "wins": piece.wins,
        }
        for piece in pieces_from(memory.body, read)
    ]
    erased = {"kind": "erased", "step": "", "change": None, "wins": 0}
    return kept + [{"piece": piece, **erased} for piece in erased_in(memory.body, read)]
