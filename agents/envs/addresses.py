"""Addresses as they may be shown and kept: without what is secret in them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_ADDRESS: Final = re.compile(r"https?://[^\s'\"<>]+")
_INSTANCE: Final = re.compile(r"[0-9a-f]{32}")
_CUT: Final = "…"


def without_secrets(address: str) -> str:
    """An address without what may be secret in it: user, password, query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return _CUT
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def shown_in(text: str) -> str:
    """A text whose addresses are as `shown` gives them."""
    return _ADDRESS.sub(lambda found: without_secrets(found[0]), text)


def without_instances(text: str, *instances: str) -> str:
    """A text without ids of instances, which are secrets: these, and whatever is spelt as ours are."""
    for instance in filter(None, instances):
        text = text.replace(instance, _CUT)
    return _INSTANCE.sub(_CUT, text)
