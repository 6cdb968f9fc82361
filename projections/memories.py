"""All kinds of memory: the fold of each kind, and the pieces of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .candidacy import Candidacy
from .engine.projection import AnyFold, Fold
from .engine.views import Views
from .pieces import CURRICULUM, EXEMPLARS, HINTS, INSTRUCTIONS, RECIPES, SKILL_PIECES, PieceState
from .rewrites import REWRITES

if TYPE_CHECKING:
    from eventlog.events import PieceKind

LOOSE: Final[Mapping[PieceKind, Fold[PieceState]]] = {
    "hint": HINTS,
    "exemplar": EXEMPLARS,
    "snippet": CURRICULUM,
    "recipe": RECIPES,
    "skill": SKILL_PIECES,
    "instruction": INSTRUCTIONS,
}
"""The folds of the kinds that have an occasion."""

FOLDS: Final[Mapping[PieceKind, AnyFold]] = {"rewrite": REWRITES, **LOOSE}
"""The fold of each kind of piece. The fold's name also names the kind in settings that enable or disable kinds."""


def candidacies(views: Views) -> dict[str, Candidacy]:
    """The candidacy of every piece, by id: rewrites first, then the other kinds, each in order of id."""
    found: dict[str, Candidacy] = {}
    for fold in FOLDS.values():
        for key, state in views.find(fold).items():
            found.setdefault(key, state)
    return found


def piece_kind(state: Candidacy) -> PieceKind:
    """The kind of piece that a state belongs to."""
    return next((kind for kind in LOOSE if isinstance(state, PieceState) and state.kind == kind), "rewrite")
