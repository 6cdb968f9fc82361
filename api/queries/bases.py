"""Base models that were added from outside: name, licence, source and digest."""

from __future__ import annotations

import msgspec

from projections.bases import BASES, BaseState
from projections.engine.views import Views

from ..errors import Unknown
from .checkpoints import DIGEST


class BaseList(msgspec.Struct, frozen=True):
    """Every added base model, in the order in which they were added."""

    bases: tuple[BaseState, ...]


def list_bases(views: Views) -> BaseList:
    """Every added base model."""
    return BaseList(bases=tuple(sorted(views.find(BASES).values(), key=lambda state: state.since)))


def find_base(views: Views, name: str) -> BaseState | None:
    """The added base of this name (the newest one), or of this digest or its first eight characters; None if none is.

    A name wins over a digest.
    """
    known = list_bases(views).bases
    named = [state for state in known if state.name == name]
    if not named and DIGEST.fullmatch(name):
        named = [state for state in known if state.base.startswith(name)]
    return named[-1] if named else None


def show_base(views: Views, name: str) -> BaseState:
    """An added base model, by a name that `find_base` takes. Raises Unknown."""
    found = find_base(views, name)
    if found is None:
        raise Unknown(what="base", actual=name, way_out="`flywheel base list` shows those that were added.")
    return found
