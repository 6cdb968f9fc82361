"""The canonical bytes of a row, for its digest: every field by name and kind, every number in binary. Pure.

Text is UTF-8 prefixed by its length, an integer 64 bits; lists of ids, logprobs (IEEE 754 doubles) and texts are
prefixed by their length. The digest therefore does not depend on a text representation of floats.
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
"""The types of a row's fields. Messages are a tuple; token ids, logprobs and texts are lists."""

Content = Mapping[str, Value]
"""A row: values by column name."""

_LENGTH = struct.Struct("<q")


def row_digest(row: Content) -> bytes:
    """SHA-256 of a row's canonical bytes."""
    return hashlib.sha256(pack_row(row)).digest()


def pack_row(row: Content) -> bytes:
    """The canonical bytes of a row: its fields sorted by name."""
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
