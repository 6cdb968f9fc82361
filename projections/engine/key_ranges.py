"""Prefixes of keys as ranges of the tables' primary key, in which keys are in order of bytes, hence of code points."""

from __future__ import annotations

from typing import Any

_LAST_CODE_POINT = chr(0x10FFFF)
_SURROGATES, _AFTER_SURROGATES = 0xD800, 0xE000
"""The code points between these two stand for no character of their own."""

Condition = tuple[str, tuple[Any, ...]]
"""SQL that continues a WHERE clause, and its values."""


def keys_within(prefix: str, after: str | None = None) -> Condition:
    """The condition that a key starts with a prefix and sorts after another key, if one is given."""
    below, values = keys_before(prefix, "key")
    if after is None:
        return f" AND key >= %s{below}", (prefix, *values)
    return f" AND key >= %s AND key > %s{below}", (prefix, after, *values)


def keys_before(prefix: str, column: str) -> Condition:
    """The condition that a key of this column sorts before all that come after the keys with a prefix."""
    last = prefix.rstrip(_LAST_CODE_POINT)
    if not last:
        return "", ()
    following = ord(last[-1]) + 1
    after = chr(_AFTER_SURROGATES if following == _SURROGATES else following)
    return f" AND {column} < %s", (last[:-1] + after,)
