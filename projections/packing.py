"""The canonical bytes of a row, for its digest: every field by name and kind, every number by its bits. Pure.

Text is UTF-8 behind its length, an integer 64 bits, a list of ids its integers behind their number, a list of logprobs
their IEEE 754 doubles: so a digest hangs on no way of writing a float.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .datasets import Message

Value: TypeAlias = "str | int | tuple[Message, ...] | list[int] | list[float] | None"
"""What a field of a row may be. Messages are a tuple, numbers of tokens a list."""

Content = Mapping[str, Value]
"""A row by the names of its columns."""

_LENGTH = struct.Struct("<q")


def row_digest(row: Content) -> bytes:
    """SHA-256 of a row's canonical bytes."""
    return hashlib.sha256(packed(row)).digest()


def packed(row: Content) -> bytes:
    """The canonical bytes of a row: its fields in order of their names, whatever order they stand in."""
    parts: list[bytes] = []
    for name in sorted(row):
        parts += (_text(name), *_value(row[name]))
    return b"".join(parts)


def _value(value: Value) -> tuple[bytes, ...]:
    match value:
        case None:
            return (b"n",)
        case str():
            return b"t", _text(value)
        case int():
            return b"i", _LENGTH.pack(value)
        case tuple():
            said = (part for message in value for part in (_text(message.role), _text(message.content)))
            return b"m", _LENGTH.pack(len(value)), *said
        case _:
            kind = "d" if value and type(value[0]) is float else "q"
            return kind.encode(), _LENGTH.pack(len(value)), struct.pack(f"<{len(value)}{kind}", *value)


def _text(text: str) -> bytes:
    body = text.encode()
    return _LENGTH.pack(len(body)) + body
