"""Go through the states of a fold page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from .projection import Fold

if TYPE_CHECKING:
    from .views import Views

S = TypeVar("S", bound=msgspec.Struct)

PAGE: Final = 1000
"""States in a page, unless a caller asks for another number."""


def page_states(views: Views, fold: Fold[S], size: int = PAGE, prefix: str = "") -> Iterator[dict[str, S]]:
    """The states that `views.find` gives, in pages of at most `size`, one of them in memory at a time."""
    after: str | None = None
    while page := views.page(fold, after, size, prefix):
        yield page
        if len(page) < size:
            return
        after = next(reversed(page))
