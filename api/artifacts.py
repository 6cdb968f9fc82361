"""Artifacts by the name a person writes: `base@0` is the base weights with the memory at that position."""

from __future__ import annotations

import re
from typing import Any

from agents.learning.memory import forget_everything, pieces_from, remember
from eventlog.blobs import Blob
from eventlog.events import Artifact
from eventlog.store import Position
from projections.rewrites import REWRITES

from .errors import BadArtifactName, Unknown
from .house import House

_NAME = re.compile(r"(base)@(\d+)")


def resolve(house: House, name: str) -> tuple[Artifact, Blob]:
    """The artifact of a name and the blob of its memory. Raises BadArtifactName, Unknown, NotThereYet."""
    found = _NAME.fullmatch(name)
    if found is None:
        if name.startswith("ck-"):
            raise Unknown(
                what="checkpoint", actual=name, way_out="No checkpoint was trained yet; `base@POSITION` names memory."
            )
        raise BadArtifactName(actual=name)
    weights, upto = found[1], int(found[2])
    if upto == 0:
        return forget_everything(weights)
    return remember(house.views(Position(upto)), weights)


def challenger(house: House, name: str) -> tuple[Artifact, Blob]:
    """The same, less what is quarantined now: a piece that a rollback took out does not come back by an older name."""
    artifact, _blob = resolve(house, name)
    if artifact.memory.upto == 0:
        return forget_everything(artifact.weights)
    quarantined = {key for key, state in house.views().find(REWRITES).items() if state.status == "quarantined"}
    return remember(house.views(Position(artifact.memory.upto)), artifact.weights, without=quarantined)


def content(house: House, artifact: Artifact) -> list[dict[str, Any]]:
    """The pieces an artifact remembers, as they are kept. Raises BlobMissing, BlobErased."""
    pieces = pieces_from(house.blobs.get(artifact.memory.digest).body)
    return [
        {
            "piece": piece.piece,
            "step": piece.anchor.intent,
            "change": piece.change.model_dump(mode="json"),
            "wins": piece.wins,
        }
        for piece in pieces
    ]
