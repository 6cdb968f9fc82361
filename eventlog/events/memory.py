"""Memory as a position, the artifact that pairs it with weights, and what takes a piece out of memory."""

from __future__ import annotations

from typing import Literal

from .event import BlobAddress, Count, Event, FrozenModel, Name

PieceKind = Literal["rewrite", "hint", "exemplar", "snippet", "recipe"]


class Memory(FrozenModel):
    """What an agent remembers: the folds named, at a log position, less the pieces in `without`.

    `digest` is the SHA-256 of the canonical content, which is kept as a blob.
    """

    upto: Count
    folds: dict[Name, Count]
    without: tuple[Name, ...]
    digest: BlobAddress


def artifact_name(weights: str, upto: int) -> str:
    """How an artifact is written: `base@0`, or `ck-3f9a1c22@18342` for a checkpoint digest."""
    return f"{weights if weights == 'base' else f'ck-{weights[:8]}'}@{upto}"


class Artifact(FrozenModel):
    """Weights and memory: what a champion is, what a challenger is, what every run is pinned to."""

    weights: Name
    memory: Memory

    def __str__(self) -> str:
        """See artifact_name."""
        return artifact_name(self.weights, self.memory.upto)


class MemoryQuarantined(Event):
    """A piece stays out of every later artifact until new evidence clears it."""

    type: Literal["MemoryQuarantined"] = "MemoryQuarantined"
    piece: Name
    kind: PieceKind
    restored: Count
    reason: str


class PieceTried(Event):
    """A run that differed from its siblings by one piece of memory ended, and so did they.

    It carried the piece and they did not, or it was `withheld` from this run alone. `won` says whether this run passed
    its oracle, `control_successes` how many of the `control_runs` did. Trials of a rewrite that carried it are
    RewriteWon and RewriteLost.
    """

    type: Literal["PieceTried"] = "PieceTried"
    piece: Name
    kind: PieceKind
    run: Name
    control_runs: tuple[Name, ...]
    control_successes: Count
    won: bool
    withheld: bool
