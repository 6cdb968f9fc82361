"""What a piece of memory holds: what it says in words, and the change that it makes; and where it belongs. Pure."""

from __future__ import annotations

import re
from typing import Final

from eventlog.chain import canonical, digest
from eventlog.events import Change, Occasion

MEDIA_TYPE: Final = "application/vnd.flywheel.piece+json"
_MADE: Final = re.compile(r"\d")


def content_bytes(text: str, change: Change) -> bytes:
    """The canonical bytes of a piece's content, whatever its kind."""
    return canonical({"text": text, "change": change.model_dump(mode="json")})


def hint_id(occasion: Occasion, change: Change) -> str:
    """One name for one hint on one occasion, so that what was seen twice is one hint."""
    return "hint-" + digest([occasion.model_dump(mode="json"), change.model_dump(mode="json")]).hex()[:12]


def page_pattern(path: str) -> str:
    """A path as occasions name it: without what was asked of it, each part that holds a number as `*`."""
    return "/".join("*" if _MADE.search(part) else part for part in path.partition("?")[0].split("/"))
