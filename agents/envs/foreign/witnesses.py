"""Witness pages: pages that show what a seed changed, for a site whose state looks alike at all seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Final

import httpx2

from ..clients.pages import page_at, parse_page
from ..clients.wire import Wire

MOST_PAGES: Final = 8
"""The first page and so many links of it are read."""


def find_witnesses(
    page_url: str,
    headers: Mapping[str, str],
    seeds: tuple[int, ...],
    sow: Callable[[int], object],
    state: Callable[[], object],
    *,
    timeout_s: float = 30.0,
    transport: httpx2.BaseTransport | None = None,
) -> tuple[str, ...]:
    """The first page that reads alike after the same seed and otherwise after another one; empty if there is none.

    `sow` seeds the site, `state` reads what must not change when a page is opened. Addresses keep their query strings.
    """
    with closing(Wire(page_url, None, timeout_s=timeout_s, extra_headers=headers, transport=transport)) as pages:
        sow(seeds[0])
        for path in tuple(_addresses(pages)):
            before = state()
            first = _text(pages, path)
            if first is None or state() != before:
                continue
            sow(seeds[0])
            again = _text(pages, path)
            others = [_after(pages, path, seed, sow) for seed in seeds[1:]]
            sow(seeds[0])
            if again == first and any(other not in (None, first) for other in others):
                return (path,)
    return ()


def _addresses(pages: Wire) -> Iterator[str]:
    yield "/"
    answer = pages.ask("GET", "/", "the first page")
    root = f"{pages.url}/"
    page = page_at(root, root, answer.status_code, parse_page(answer.content, answer.charset_encoding))
    found = dict.fromkeys(link.path.partition("#")[0] for link in page.links())
    yield from [path for path in found if path != "/"][:MOST_PAGES]


def _text(pages: Wire, path: str) -> str | None:
    answer = pages.ask("GET", path, "a page")
    return answer.text if answer.status_code == HTTPStatus.OK else None


def _after(pages: Wire, path: str, seed: int, sow: Callable[[int], object]) -> str | None:
    sow(seed)
    return _text(pages, path)
