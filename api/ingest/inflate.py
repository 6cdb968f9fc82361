"""Bodies that came compressed, inflated up to a bound. Pure."""

from __future__ import annotations

import zlib
from typing import Final

from .errors import BadTraces, TracesTooLarge

ENCODINGS: Final = ("identity", "gzip", "deflate")
"""What Content-Encoding may say."""

_ANY_HEADER: Final = 32 + zlib.MAX_WBITS
"""Tells zlib to read both the header of gzip and its own."""

_PARTS_MOST: Final = 1_000
_PIECE: Final = 1 << 16
"""Bytes given to zlib at once: it copies what is left of them after each part."""


def inflate_body(body: bytes, at_most: int) -> bytes:
    """The content of a body in gzip or zlib's format, of one or more parts. Raises BadTraces, TracesTooLarge.

    No more than the bound is inflated, however much the body would give.
    """
    found, at = bytearray(), 0
    for _ in range(_PARTS_MOST):
        if at == len(body):
            return bytes(found)
        at = _inflate_part(body, at, found, at_most)
    if at < len(body):
        raise BadTraces(actual=f"gzip of more than {_PARTS_MOST} parts", expected="fewer parts, best a single one")
    return bytes(found)


def _inflate_part(body: bytes, at: int, found: bytearray, at_most: int) -> int:
    """Add the content of the part that begins at a place. Returns the place of the next one."""
    reader, rest = zlib.decompressobj(_ANY_HEADER), memoryview(body)
    while not reader.eof:
        if at == len(body):
            raise BadTraces(actual="gzip that ends too early", expected="the whole body")
        piece = rest[at : at + _PIECE]
        try:
            found += reader.decompress(piece, at_most - len(found) + 1)
        except zlib.error as problem:
            raise BadTraces(actual=f"no gzip ({problem})", expected="the body that Content-Encoding names") from problem
        if len(found) > at_most:
            raise TracesTooLarge(actual=f"more than {at_most} bytes once inflated", expected=at_most)
        at += len(piece) - len(reader.unused_data)
    return at
