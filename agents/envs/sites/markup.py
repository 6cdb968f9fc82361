"""HTML made of elements: whatever is not markup already is escaped, so a page cannot forget to."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

VOID: Final = frozenset({"br", "hr", "input", "link", "meta"})


class Html(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


def tag(name: str, attributes: Mapping[str, str | bool | None] | None = None, /, *children: str) -> Html:
    """Make one element; an attribute that is True stands alone, one that is False or None is left out."""
    opening = "".join(_attribute(key, value) for key, value in (attributes or {}).items())
    if name in VOID:
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{together(*children)}</{name}>")


def together(*children: str) -> Html:
    """Join markup and text into markup."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def document(*, title: str, style: str, body: Html) -> str:
    """Make a whole HTML5 page with its style inline."""
    head = tag(
        "head",
        None,
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("title", None, title),
        tag("style", None, Html(style)),
    )
    return "<!doctype html>\n" + tag("html", {"lang": "en"}, head, "\n", body) + "\n"


def _attribute(key: str, value: str | bool | None) -> str:  # noqa: FBT001 (HTML has such attributes)
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{escape(value)}"'
