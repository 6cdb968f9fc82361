"""A search in pages: what was asked, the part of a list that one page shows, and the way to the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

from .markup import Html, tag

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


def count_results(results: Results[T], what: str) -> str:
    """How many rows a search leaves, each of them a `what`, and which page this is."""
    rows = f"1 {what}" if results.total == 1 else f"{results.total} {what}s"
    return f"{rows} found, page {results.page} of {results.pages}"


def page_links(path: str, query: Query, results: Results[T]) -> Html:
    """The links to the page before and the page after."""
    links: list[Html] = []
    if results.page > 1:
        links.append(tag("a", {"rel": "prev", "href": query.address(path, results.page - 1)}, "Previous"))
    if results.page < results.pages:
        links.append(tag("a", {"rel": "next", "href": query.address(path, results.page + 1)}, "Next"))
    return tag("nav", {"class": "pages", "aria-label": "Pages"}, *links)
