"""Snapshot of a window as an HTML document, to which the rules for labels and texts apply. Reading changes nothing.

The document is copied into an inert one, with the current values of its controls and without hidden elements. Each
element carries the index of its live element, so that agents can act on what the rules find.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from playwright.async_api import ElementHandle, JSHandle
from playwright.async_api import Page as Window

from ...envs.clients.pages import Page, page_at, parse_page

_PLACE: Final = "data-flywheel-place"
_HTML: Final = "text/html"
_READ: Final = (
    """() => {
  const live = [...document.querySelectorAll('*')];
  const root = document.implementation.createHTMLDocument('').importNode(document.documentElement, true);
  const copies = [root, ...root.querySelectorAll('*')];
  const isHidden = (element) => {
    if (element.matches('noscript, template')) return true;
    if (!document.body || !document.body.contains(element)) return false;
    if (element.matches('select *')) return false;
    const style = getComputedStyle(element);
    return style.display === 'none' ||
      (style.visibility !== 'visible' && element.matches('a, button, input, label, select, textarea'));
  };
  const hold = (element, copy) => {
    if (element.localName === 'option') copy.toggleAttribute('selected', element.selected);
    else if (element.localName === 'textarea') copy.textContent = element.value;
    else if (element.localName !== 'input') return;
    else if (['checkbox', 'radio'].includes(element.type)) copy.toggleAttribute('checked', element.checked);
    else if (!['button', 'file', 'hidden', 'image', 'reset', 'submit'].includes(element.type))
      copy.setAttribute('value', element.value);
  };
  live.forEach((element, place) => {
    copies[place].setAttribute('"""
    + _PLACE
    + """', place);
    hold(element, copies[place]);
    const named = (element.getAttribute('aria-labelledby') || '').split(/\\s+/).filter(Boolean)
      .map((id) => document.getElementById(id)).filter(Boolean).map((each) => each.textContent).join(' ').trim();
    if (named) copies[place].setAttribute('aria-label', named);
  });
  live.map(isHidden).forEach((hidden, place) => hidden && copies[place].remove());
  return {live, html: root.outerHTML, type: document.contentType, address: document.URL};
}"""
)


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """A page as it was read, and the live elements that it was read from."""

    page: Page
    live: JSHandle

    async def element(self, found: Any) -> ElementHandle | None:
        """The live element that an element of the page was copied from."""
        place = int(found.get(_PLACE))
        return (await self.live.evaluate_handle("(read, place) => read.live[place]", place)).as_element()


async def read_window(window: Window, root: str, status: int, body: Callable[[], Awaitable[bytes]]) -> PageSnapshot:
    """Read a window. Content other than HTML is read from its bytes, because a browser wraps it in HTML."""
    live = await window.evaluate_handle(_READ)
    found = await live.evaluate("({html, type, address}) => ({html, type, address})")
    document = parse_page(found["html"].encode(), "utf-8") if found["type"] == _HTML else parse_page(await body(), None)
    return PageSnapshot(page_at(root, found["address"], status, document), live)
