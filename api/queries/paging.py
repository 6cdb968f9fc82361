"""Pages of a listing, in order of key bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from projections.engine.paging import PAGE, page_states
from projections.engine.projection import Fold
from projections.engine.views import Views

S = TypeVar("S", bound=msgspec.Struct)

Page = tuple[dict[str, S], str | None]
"""States by key, and the key to continue after; None where no more follow."""

MOST_READ = 10_000
"""How many states are read for one page of those that a filter leaves."""


def page_after(views: Views, fold: Fold[S], after: str | None, limit: int | None, prefix: str = "") -> Page[S]:
    """A page of at most `limit` states whose keys sort after `after` and start with a prefix; None: all of them."""
    if limit is None:
        every = (state for page in page_states(views, fold, prefix=prefix) for state in page.items())
        return {key: state for key, state in every if after is None or key.encode() > after.encode()}, None
    return _first(views.page(fold, after, limit + 1, prefix), limit)


def filter_page(
    views: Views,
    fold: Fold[S],
    keep: Callable[[dict[str, S]], dict[str, S]],
    *,
    prefix: str = "",
    after: str | None = None,
    limit: int,
    most_read: int | None = MOST_READ,
    size: int = PAGE,
) -> Page[S]:
    """A page of the states that `keep` leaves of the pages it is given, each of `size` states.

    Once `most_read` states were read the page ends, with fewer than `limit` states if the filter leaves few (None: it
    is filled whatever that takes).
    """
    found: dict[str, S] = {}
    read = 0
    while most_read is None or read < most_read:
        page = views.page(fold, after, size, prefix)
        found |= keep(page)
        if len(found) > limit:
            return _first(found, limit)
        if len(page) < size:
            return found, None
        read, after = read + len(page), next(reversed(page))
    return found, after


def _first(found: dict[str, S], limit: int) -> Page[S]:
    if len(found) <= limit:
        return found, None
    page = dict(list(found.items())[:limit])
    return page, next(reversed(page))
