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


HistoryPage = tuple[tuple[Since[S], ...], int | None]
"""States that a key had, oldest first, and the position to continue after; None where no more follow."""


def page_history(views: Views, fold: Fold[S], key: str, *, after: int = 0, limit: int | None = None) -> HistoryPage[S]:
    """A page of at most `limit` states that a key had after a position; None: all of them."""
    found = views.history(fold, key, after, None if limit is None else limit + 1)
    page = tuple(Since(since=change.since, state=change.state) for change in found[:limit])
    return page, page[-1].since if len(page) < len(found) else None
