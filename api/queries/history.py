"""The history of one key of a fold: what it was, from which position on."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from projections.engine.projection import Fold
from projections.engine.views import Views

S = TypeVar("S", bound=msgspec.Struct)


class Since(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """A state and the position since which it holds; `state` is null where nothing is left of it."""

    since: int
    state: S | None


def history_of(
    views: Views, fold: Fold[S], key: str, *, after: int = 0, limit: int | None = None
) -> tuple[Since[S], ...]:
    """The first `limit` states that a key had after a position (None: all), oldest first."""
    found = views.history(fold, key, after, limit)
    return tuple(Since(since=change.since, state=change.state) for change in found)
