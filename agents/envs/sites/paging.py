"""Paged search: the query, one page of its results, and the addresses of its other pages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")
PAGE: Final = "pg"
"""Query field of the page number; a site's form never shows it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search: its raw fields (shown again in the form), its page number, and its errors."""

    fields: Mapping[str, str]
    page: int
    errors: tuple[str, ...]

    def address(self, path: str, page: int) -> str:
        """Address of another page of the same search."""
        kept = {name: value for name, value in self.fields.items() if value and name != PAGE}
        return f"{path}?{urlencode({**kept, PAGE: str(page)})}"


@dataclass(frozen=True, slots=True)
class Results(Generic[T]):
    """One page of a search's rows, counted from 1; `total` counts the rows of all pages."""

    rows: tuple[T, ...]
    total: int
    page: int
    pages: int


def cut_page(rows: Sequence[T], page: int, size: int) -> Results[T]:
    """One page of `size` rows; beyond the last page, the last one."""
    pages = max(1, -(-len(rows) // size))
    page = min(page, pages)
    return Results(tuple(rows[(page - 1) * size : page * size]), len(rows), page, pages)
