"""URLs with their secrets removed, for display and for the log."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_ADDRESS: Final = re.compile(r"https?://[^\s'\"<>]+")
_INSTANCE: Final = re.compile(r"[0-9a-f]{32}")
_CUT: Final = "…"


def without_secrets(address: str) -> str:
    """The URL without user, password and query, which may be secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return _CUT
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def shown_in(text: str) -> str:
    """The text with every URL in it stripped by `without_secrets`."""
    return _ADDRESS.sub(lambda found: without_secrets(found[0]), text)


def without_instances(text: str, *instances: str) -> str:
    """The text without instance ids, which are secrets: the given ones, and any string of 32 hexadecimal digits."""
    for instance in filter(None, instances):
        text = text.replace(instance, _CUT)
    return _INSTANCE.sub(_CUT, text)
