"""URLs with their secrets removed, for display and for the log; and paths, which must not lead out of a site."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

_ADDRESS: Final = re.compile(r"https?://[^\s'\"<>]+")
_INSTANCE: Final = re.compile(r"[0-9a-f]{32}")
_CUT: Final = "…"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")


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


def fault_of_path(address: str) -> str | None:
    """Why an address is not a path inside a site, also when percent-encoded; None if it is one."""
    path = unquote(re.split("[?#]", address, maxsplit=1)[0])
    if _CONTROL.search(path) or _CONTROL.search(address):
        return "it holds a control character; expected a path of the site"
    if "\\" in path:
        return "it holds a backslash, which browsers read as /; expected a path of the site"
    if _SCHEME.match(path) or path.lstrip().startswith("//"):
        return "it names another place than the site; expected a path, such as /boats"
    if ".." in path.split("/"):
        return "it leads out of the site with `..`; expected a path of the site"
    return None


def check_path(address: str) -> str:
    """The address, if it is a path inside a site. Raises ValueError."""
    fault = fault_of_path(address)
    if fault is not None:
        raise ValueError(fault)
    return address
