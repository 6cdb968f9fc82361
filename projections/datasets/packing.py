"""The canonical bytes of a row, for its digest: every field by name and kind, every number by its bits. Pure.

Text is UTF-8 behind its length, an integer 64 bits, a list of ids its integers behind their number, a list of logprobs
their IEEE 754 doubles, a list of texts those: so a digest hangs on no way of writing a float.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .plan_rows import ConversationMessage

Value: TypeAlias = "str | int | tuple[ConversationMessage, ...] | list[int] | list[float] | list[str] | None"
"""What a field of a row may be. Messages are a tuple, numbers of tokens a list, and so are texts."""

Content = Mapping[str, Value]
"""A row by the names of its columns."""

_LENGTH = struct.Struct("<q")


def row_digest(row: Content) -> bytes:
    """SHA-256 of a row's canonical bytes."""
    return hashlib.sha256(pack_row(row)).digest()


def pack_row(row: Content) -> bytes:
    """The canonical bytes of a row: its fields in order of their names, whatever order they stand in."""
    return b"".join([part for name in sorted(row) for part in (_name(name), _value(row[name]))])


def _value(value: Value) -> bytes:
    if isinstance(value, list):
        if value and type(value[0]) is str:
            return b"".join((b"s", _LENGTH.pack(len(value)), *map(_text, value)))
        kind = "d" if value and type(value[0]) is float else "q"
        return struct.pack(f"<cq{len(value)}{kind}", kind.encode(), len(value), *value)
    if isinstance(value, str):
        return b"t" + _text(value)
    if isinstance(value, tuple):
        said = [part for message in value for part in (_text(message.role), _text(message.content))]
        return b"".join((b"m", _LENGTH.pack(len(value)), *said))
    return b"n" if value is None else b"i" + _LENGTH.pack(value)


@cache
def _name(name: str) -> bytes:
    return _text(name)


def _text(text: str) -> bytes:
    body = text.encode()
    return _LENGTH.pack(len(body)) + body
