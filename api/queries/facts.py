"""Facts that must be there, and states that a caller names."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from projections.engine.projection import Fold
from projections.engine.views import Views

from ..errors import FactMissing, Unknown

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


def require(value: T | None) -> T:
    """Return a fact that the controller appends before anything asks for it. Raises FactMissing."""
    if value is None:
        raise FactMissing(actual="a champion, prices, a benchmark or an evaluation")
    return value


def find_state(views: Views, fold: Fold[S], key: str, *, what: str, way_out: str) -> S:
    """The state of a key that a caller names. Raises Unknown, which says what has no such name, and the way out."""
    state = views.get(fold, key)
    if state is None:
        raise Unknown(what=what, actual=key, way_out=way_out)
    return state
