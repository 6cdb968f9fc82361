"""Decoders of msgspec structs, built one at a time.

msgspec 0.22 prepares a struct class when the first decoder of it is built, and shows other threads the class half
prepared: two threads that build at the same time end the process with a segmentation fault. Everything that reads
structs gets its decoder here.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any

import msgspec

_BUILDING = Lock()


@lru_cache(maxsize=1024)
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """The JSON decoder of a type."""
    with _BUILDING:
        return msgspec.json.Decoder(kind)


def convert(value: object, kind: Any) -> Any:
    """A value of a type from its plain form. Raises msgspec.ValidationError."""
    decoder_of(kind)  # so the type is prepared
    return msgspec.convert(value, kind)
