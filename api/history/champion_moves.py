"""Moves of the champion by hand: what a move would change, and the move itself at the position that was looked at."""

from __future__ import annotations

from typing import Any

import msgspec

from eventlog.errors import BlobMissing
from eventlog.events import Artifact
from eventlog.store import Position
from gate.promote import Pointed, back, point
from gate.return_plan import plan_return
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.views import Views
from projections.taint import Tainted

from ..evaluations.artifacts import list_pieces, resolve_artifact
from ..house import House
from .withdraw import runs_of_champion, taint_of_runs, withdrawal


class PieceName(msgspec.Struct, frozen=True, order=True):
    """A piece of memory, its kind, and the step that it belongs to."""

    kind: str
    piece: str
    step: str


class PointPreview(msgspec.Struct, frozen=True, kw_only=True):
    """Preview of pointing at an artifact as of `position`; `before` is null where there is no champion.

    `added` are the pieces of memory that only the chosen artifact has, `removed` those that only the champion has,
    `kept` the number of pieces of both. `weights` tells that the weights differ.
    """

    position: int
    before: str | None
    after: str
    weights: bool
    added: tuple[PieceName, ...]
    removed: tuple[PieceName, ...]
    kept: int

    @property
    def is_same(self) -> bool:
        """True if the chosen artifact is the champion."""
        return self.before == self.after


class BackPreview(msgspec.Struct, frozen=True, kw_only=True):
    """Preview of going back as of `position`: the champion, the pieces quarantined, and the runs it played.

    `runs` are the runs played with the champion that is left, `tainted` is what was learned from them.
    """

    position: int
    before: str
    after: str
    quarantined: tuple[str, ...]
    runs: tuple[str, ...]
    tainted: Tainted


def preview_point(house: House, name: str) -> PointPreview:
    """Preview of pointing at a named artifact. Writes nothing. Raises BadArtifactName, Unknown, NotThereYet."""
    chosen, memory = resolve_artifact(house, name)
    views = house.views()
    state = views.get(CHAMPIONS, CHAMPION)
    own = _pieces(list_pieces(house, memory))
    present = frozenset[PieceName]() if state is None else _pieces_of(house, state.pointed_artifact())
    return PointPreview(
        position=int(views.upto),
        before=None if state is None else state.name,
        after=str(chosen),
        weights=state is not None and state.pointed_artifact().weights != chosen.weights,
        added=tuple(sorted(own - present)),
        removed=tuple(sorted(present - own)),
        kept=len(own & present),
    )


def point_at(house: House, name: str, reason: str, actor: str, seen: Position) -> Pointed:
    """Make a named artifact champion, as `gate.promote.point` does, if the champion was not moved since `seen`."""
    chosen, memory = resolve_artifact(house, name)
    house.blobs.put([memory])
    return point(house.store, house.views(seen), chosen, reason, actor)


def preview_back(house: House) -> BackPreview:
    """Preview of going back to the champion before the present one. Writes nothing. Raises NothingBefore."""
    views = house.views()
    plan = plan_return(views)
    runs = runs_of_champion(views)
    return BackPreview(
        position=int(views.upto),
        before=str(plan.left),
        after=str(plan.restored),
        quarantined=plan.quarantined,
        runs=runs,
        tainted=taint_of_runs(house, views, runs),
    )


def go_back(house: House, reason: str, actor: str, seen: Position, *, withdraws: bool) -> Pointed:
    """Go back as `gate.promote.back` does, if the champion was not moved since `seen`; `withdraws` its runs."""
    views = house.views(seen)
    runs = runs_of_champion(views) if withdraws else ()
    return back(house.store, views, reason, actor, withdraw=withdrawal(runs, reason) if runs else ())


def is_in_champion(house: House, views: Views, piece: str) -> bool:
    """True if the memory of the present champion has a piece."""
    state = views.get(CHAMPIONS, CHAMPION)
    return state is not None and any(each.piece == piece for each in _pieces_of(house, state.pointed_artifact()))


def _pieces_of(house: House, artifact: Artifact) -> frozenset[PieceName]:
    """The pieces of a pinned memory; where its blob is not stored, those of its name."""
    try:
        memory = house.blobs.get(artifact.memory.digest)
    except BlobMissing:
        memory = resolve_artifact(house, str(artifact))[1]
    return _pieces(list_pieces(house, memory))


def _pieces(rows: list[dict[str, Any]]) -> frozenset[PieceName]:
    return frozenset(PieceName(row["kind"], row["piece"], row["step"]) for row in rows)
