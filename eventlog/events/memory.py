"""Memory as a position, the artifact that pairs it with weights, and what takes a piece out of memory."""

from __future__ import annotations

from typing import Literal

from .event import Count, Digest, Event, FrozenModel, Name

PieceKind = Literal["rewrite"]


class Memory(FrozenModel):
    """What an agent remembers: the folds named, at a log position, less the pieces in `without`.

    `digest` is the SHA-256 of the canonical content, which is kept as a blob.
    """

    upto: Count
    folds: dict[Name, Count]
    without: tuple[Name, ...]
    digest: Digest


class Artifact(FrozenModel):
    """Weights and memory: what a champion is, what a challenger is, what every run is pinned to."""

    weights: Name
    memory: Memory

    def __str__(self) -> str:
        """`base@0`, or `ck-3f9a1c22@18342` for a checkpoint digest."""
        weights = self.weights if self.weights == "base" else f"ck-{self.weights[:8]}"
        return f"{weights}@{self.memory.upto}"


class MemoryQuarantined(Event):
    """A piece stays out of every later artifact until new evidence clears it."""

    type: Literal["MemoryQuarantined"] = "MemoryQuarantined"
    piece: Name
    kind: PieceKind
    restored: Count
    reason: str
