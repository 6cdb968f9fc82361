"""Content of a piece of memory (text and change), and the page patterns of occasions. Pure."""

from __future__ import annotations

import re
from typing import Final

from eventlog.chain import canonical
from eventlog.events import Change

MEDIA_TYPE: Final = "application/vnd.flywheel.piece+json"
_MADE: Final = re.compile(r"\d")


def content_bytes(text: str, change: Change | None) -> bytes:
    """Canonical bytes of a piece's content, in the same form for every kind. A lesson in words has no change."""
    return canonical({"text": text, "change": None if change is None else change.model_dump(mode="json")})


def page_pattern(path: str) -> str:
    """Page pattern of a path: without its query, and with `*` for each segment that contains a digit."""
    return "/".join("*" if _MADE.search(part) else part for part in path.partition("?")[0].split("/"))
