"""Base models that were added from outside: name, licence, source and digest."""

from __future__ import annotations

import msgspec

from projections.bases import BASES, BaseState
from projections.engine.views import Views

from ..errors import Unknown
from .checkpoints import DIGEST
from .paging import page_after


class BaseList(msgspec.Struct, frozen=True, kw_only=True):
    """Added base models in order of digest; `next` is the digest to continue after, null where no more follow."""

    bases: tuple[BaseState, ...]
    next: str | None


class BaseAnswer(msgspec.Struct, frozen=True):
    """One added base model."""

    base: BaseState


def list_bases(views: Views, *, after: str | None = None, limit: int | None = None) -> BaseList:
    """A page of the added base models, in order of digest."""
    page, following = page_after(views, BASES, after, limit)
    return BaseList(bases=tuple(page.values()), next=following)


def find_base(views: Views, name: str) -> BaseState | None:
    """The added base of this name (the newest one), or of this digest or its first eight characters; None if none is.

    A name wins over a digest.
    """
    known = sorted(views.find(BASES).values(), key=lambda state: state.since)
    named = [state for state in known if state.name == name]
    if not named and DIGEST.fullmatch(name):
        named = [state for state in known if state.base.startswith(name)]
    return named[-1] if named else None


def show_base(views: Views, name: str) -> BaseAnswer:
    """An added base model, by a name that `find_base` takes. Raises Unknown."""
    found = find_base(views, name)
    if found is None:
        raise Unknown(what="base", actual=name, way_out="`flywheel base list` shows those that were added.")
    return BaseAnswer(found)
