"""Pages of a listing, in order of key bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

S = TypeVar("S")


def page_after(states: Mapping[str, S], after: str | None, limit: int | None) -> tuple[tuple[S, ...], str | None]:
    """The states whose keys sort after `after`, at most `limit`, and the page's last key; None where no more follow."""
    start = None if after is None else after.encode()
    found = [(key, state) for key, state in states.items() if start is None or key.encode() > start]
    page = found[:limit]
    return tuple(state for _, state in page), page[-1][0] if len(page) < len(found) else None
