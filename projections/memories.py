"""Every kind of memory: its fold, and all pieces of all kinds together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .candidacy import Candidacy
from .engine.projection import AnyFold, Fold
from .engine.views import Views
from .pieces import CURRICULUM, EXEMPLARS, HINTS, RECIPES, PieceState
from .rewrites import REWRITES

if TYPE_CHECKING:
    from eventlog.events import PieceKind

LOOSE: Final[Mapping[PieceKind, Fold[PieceState]]] = {
    "hint": HINTS,
    "exemplar": EXEMPLARS,
    "snippet": CURRICULUM,
    "recipe": RECIPES,
}
"""The kinds that are matched by their occasion."""

FOLDS: Final[Mapping[PieceKind, AnyFold]] = {"rewrite": REWRITES, **LOOSE}
"""The fold of each kind of piece; its name is also how the kind is called where kinds are switched on and off."""


def candidacies(views: Views) -> dict[str, Candidacy]:
    """How every piece of every kind stands, by id; rewrites first, then by kind, each in order of id."""
    found: dict[str, Candidacy] = {}
    for fold in FOLDS.values():
        for key, state in views.find(fold).items():
            found.setdefault(key, state)
    return found


def piece_kind(state: Candidacy) -> PieceKind:
    """What kind of piece a state is of."""
    return next((kind for kind in LOOSE if isinstance(state, PieceState) and state.kind == kind), "rewrite")
