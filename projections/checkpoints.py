"""Weights: every saved checkpoint, its provenance, and where it was published.

Lineage is followed through parents and bases; a base model made by a warm-up is itself one of the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from msgspec.structs import replace

from .engine.projection import EventRow, Fold, FoldState

WARMUP = "warmup"


class FileState(FoldState, frozen=True, kw_only=True):
    """A file of a checkpoint and the address of its bytes."""

    name: str = ""
    blob: str = ""


class PlaceState(FoldState, frozen=True, kw_only=True):
    """A publication of a checkpoint: place, format, and the digest of the published files."""

    place: str = ""
    form: str = ""
    digest: str = ""
    since: int = 0


class WeightsState(FoldState, frozen=True, kw_only=True):
    """A checkpoint. `base` is the base model of the adapter; for a warm-up, the model it was trained from."""

    checkpoint: str = ""
    training: str = ""
    algorithm: str = ""
    base: str = ""
    parent: str | None = None
    dataset: str = ""
    upto: int = 0
    manifest: str = ""
    files: tuple[FileState, ...] = ()
    published: tuple[PlaceState, ...] = ()
    since: int = 0

    @property
    def is_base(self) -> bool:
        """True if this is a base model, made by a warm-up, and not an adapter."""
        return self.algorithm == WARMUP


def _fold(state: WeightsState, row: EventRow) -> WeightsState:
    if row.type == "CheckpointPublished":
        place = PlaceState(
            place=row.text("place"), form=row.text("form"), digest=row.text("digest"), since=row.position
        )
        others = tuple(each for each in state.published if each.place != place.place)
        return replace(state, published=(*others, place))
    return WeightsState(
        checkpoint=row.text("checkpoint"),
        training=row.text("training"),
        algorithm=row.text("algorithm"),
        base=row.text("base"),
        parent=row.maybe_text("parent"),
        dataset=row.text("dataset"),
        upto=row.number("upto"),
        manifest=row.text("manifest"),
        files=tuple(_file(item) for item in row.records("files")),
        since=row.position,
    )


def _file(item: dict[str, Any]) -> FileState:
    return FileState(name=item["name"], blob=item["blob"])


def ancestry(known: Mapping[str, WeightsState], digest: str) -> tuple[WeightsState, ...]:
    """A checkpoint and all its ancestors in the log, through parents and bases, each once."""
    found: dict[str, WeightsState] = {}
    waiting: list[str | None] = [digest]
    while waiting:
        name = waiting.pop(0)
        if name is not None and name in known and name not in found:
            found[name] = known[name]
            waiting += [known[name].parent, known[name].base]
    return tuple(found.values())


def descendants(known: Mapping[str, WeightsState], digests: Set[str]) -> tuple[str, ...]:
    """Digests of all checkpoints that descend from one of these through parents or bases, in order of digest."""
    found: set[str] = set()
    while more := {key for key, state in known.items() if {state.parent, state.base} & (digests | found)} - found:
        found |= more
    return tuple(sorted(found - digests))


def checkpoints_trained_on(known: Iterable[WeightsState], datasets: Set[str]) -> frozenset[str]:
    """Digests of the checkpoints that were trained on one of these datasets."""
    return frozenset(state.checkpoint for state in known if state.dataset in datasets)


WEIGHTS = Fold(
    name="weights",
    version=2,
    reads={
        "CheckpointSaved": (
            "checkpoint",
            "training",
            "algorithm",
            "base",
            "parent",
            "dataset",
            "upto",
            "manifest",
            "files",
        ),
        "CheckpointPublished": ("checkpoint", "place", "form", "digest"),
    },
    initial=WeightsState(),
    key=lambda row: row.text("checkpoint"),
    fold=_fold,
)
