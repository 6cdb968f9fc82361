"""Plan of a return to the previous champion: the artifact restored, the pieces quarantined. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eventlog.events import Artifact, Memory
from projections.candidacy import Candidacy
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.projection import AnyFold
from projections.engine.views import Views
from projections.memories import FOLDS, candidacies, piece_kind

from .errors import NothingBefore
from .jurisdiction import entered_since


@dataclass(frozen=True, slots=True)
class ReturnPlan:
    """The champion that is left, the one restored, and the memory pieces that are quarantined."""

    left: Artifact
    restored: Artifact
    quarantined: tuple[str, ...]


def plan_return(views: Views) -> ReturnPlan:
    """Plan the return to the champion before the present one, as of the views' position. Raises NothingBefore."""
    state = views.get(CHAMPIONS, CHAMPION)
    if state is None or len(state.stack) < 2:  # noqa: PLR2004 - the current champion and the previous one
        raise NothingBefore(actual=0 if state is None else len(state.stack), expected=2)
    history = views.history(CHAMPIONS, CHAMPION)
    restored = next(c.state.pointed_artifact() for c in history if c.state is not None and c.since == state.stack[-2])
    left = state.pointed_artifact()
    entered = entered_since(left.memory, restored.memory)
    pieces = tuple(
        key
        for key, piece in candidacies(views).items()
        if (_is_left_behind(views, key, piece, left.memory, restored.memory) if entered is None else key in entered)
    )
    return ReturnPlan(left, restored, pieces)


def _is_left_behind(views: Views, name: str, piece: Candidacy, present: Memory, restored: Memory) -> bool:
    """True if the present memory has a piece that was accepted after the restored memory, or that it excludes.

    A piece that is promoted now has been so without interruption since `promoted_since`. A piece that was promoted
    before and is demoted or on trial now counts if the present memory still contains it.
    """
    if piece.status == "promoted":
        return (piece.promoted_since or 0) > restored.upto or name in restored.without
    if piece.status in {"demoted", "candidate", "retired"}:
        fold = FOLDS[piece_kind(piece)]
        return _holds(views, fold, present, name) and not _holds(views, fold, restored, name)
    return False


def _holds(views: Views, fold: AnyFold, memory: Memory, piece: str) -> bool:
    changes = [change.state for change in views.history(fold, piece) if change.since <= memory.upto]
    statuses = ["withdrawn" if state is None else state.status for state in changes]
    return piece not in memory.without and statuses[-1:] == ["promoted"]
