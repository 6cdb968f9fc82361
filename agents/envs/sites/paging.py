"""A search in pages: what was asked, the part of a list that one page shows, and the way to the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")
PAGE: Final = "pg"
"""The field that names a page; a site's form never shows it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search: the raw fields, which the form shows again, the page that is wanted, and what was wrong with them."""

    fields: Mapping[str, str]
    page: int
    errors: tuple[str, ...]

    def address(self, path: str, page: int) -> str:
        """The same search, another page of it."""
        kept = {name: value for name, value in self.fields.items() if value and name != PAGE}
        return f"{path}?{urlencode({**kept, PAGE: str(page)})}"


@dataclass(frozen=True, slots=True)
class Results(Generic[T]):
    """One page, counted from 1, of the `total` rows that a search leaves."""

    rows: tuple[T, ...]
    total: int
    page: int
    pages: int


def cut_page(rows: Sequence[T], page: int, size: int) -> Results[T]:
    """One page of rows, `size` a page; a page beyond the last is the last."""
    pages = max(1, -(-len(rows) // size))
    page = min(page, pages)
    return Results(tuple(rows[(page - 1) * size : page * size]), len(rows), page, pages)
