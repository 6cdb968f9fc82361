"""JSON in one form, so that equal values have equal bytes and one address. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

_ANY: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
_TEXTS: Final = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Mapping[str, object]) -> bytes:
    """A plain JSON object as UTF-8, keys in order, no spaces.

    Raises ValueError for NaN and infinity, and UnicodeEncodeError, a ValueError too, for lone surrogates.
    """
    return _ANY.encode(value).encode()


def canonical_texts(value: Mapping[str, Mapping[str, object] | str | None]) -> bytes:
    """The same of an object and objects in it; faster where these hold texts alone, which msgspec writes alike."""
    parts = [part for each in value.values() if isinstance(each, Mapping) for part in each.values()]
    return _TEXTS.encode(value) if all(type(part) is str for part in parts) else canonical_json(value)
