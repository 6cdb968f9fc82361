"""Decoders of msgspec structs, built one at a time.

msgspec 0.22 prepares a struct class when the first decoder of it is built, and shows other threads the class half
prepared: two threads that build at the same time end the process with a segmentation fault. Everything that reads
structs gets its decoder here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

import msgspec

_BUILDING = Lock()


@lru_cache(maxsize=1024)
def decoder_of(kind: Any, read_other: Callable[[type, Any], Any] | None = None) -> msgspec.json.Decoder[Any]:
    """The JSON decoder of a type; `read_other` reads the types in it that msgspec does not know."""
    with _BUILDING:
        return msgspec.json.Decoder(kind, dec_hook=read_other)


def convert(value: object, kind: Any) -> Any:
    """A value of a type from its plain form. Raises msgspec.ValidationError."""
    decoder_of(kind)  # so the type is prepared
    return msgspec.convert(value, kind)
