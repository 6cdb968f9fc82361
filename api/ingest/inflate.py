"""Bodies that came compressed, inflated up to a bound. Pure."""

from __future__ import annotations

import zlib
from typing import Final

from .errors import BadTraces, TracesTooLarge

ENCODINGS: Final = ("identity", "gzip", "deflate")
"""What Content-Encoding may say."""

_ANY_HEADER: Final = 32 + zlib.MAX_WBITS
"""Tells zlib to read both the header of gzip and its own."""


def inflate_body(body: bytes, at_most: int) -> bytes:
    """The content of a body in gzip or zlib's format, of one or more parts. Raises BadTraces, TracesTooLarge.

    No more than the bound is inflated, however much the body would give.
    """
    found = bytearray()
    while body:
        reader = zlib.decompressobj(_ANY_HEADER)
        try:
            found += reader.decompress(body, at_most - len(found) + 1)
        except zlib.error as problem:
            raise BadTraces(actual=f"no gzip ({problem})", expected="the body that Content-Encoding names") from problem
        if len(found) > at_most:
            raise TracesTooLarge(actual=f"more than {at_most} bytes once inflated", expected=at_most)
        if not reader.eof:
            raise BadTraces(actual="gzip that ends too early", expected="the whole body")
        body = reader.unused_data
    return bytes(found)
