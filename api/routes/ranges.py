"""Parts of an answer (RFC 9110): which bytes a Range header asks for, and what If-Range says of it. Pure."""

from __future__ import annotations

import re
from typing import Final

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def wanted_range(asked: str | None, if_range: str | None, tag: str, size: int) -> range | None:
    """The bytes that are wanted of `size`: None for all of them, an empty range for one that none is in.

    What cannot be read, several ranges, and a range of another representation than `tag` ask for all.
    """
    found = None if asked is None else _RANGE.fullmatch(asked.strip())
    if found is None or (if_range is not None and if_range.strip() != tag):
        return None
    first, last = found[1], found[2]
    if not first:
        return None if not last else range(max(0, size - int(last)), size) if int(last) else range(0)
    end = size if not last else min(size, int(last) + 1)
    if last and int(last) < int(first):
        return None
    return range(int(first), end) if int(first) < size else range(0)
