"""The JSON form of values that msgspec has no form for, and the way back."""

from __future__ import annotations

from typing import Any

import msgspec

from eventlog.events import EVENT_TYPES, Event, FrozenModel


def encode_value(value: object) -> object:
    """An event as its fields, anything else as text."""
    return value.model_dump(mode="json") if isinstance(value, FrozenModel) else str(value)


def decode_value(kind: type, value: Any) -> object:
    """The event that fields in JSON are of. Raises KeyError for an unknown type, pydantic's ValidationError."""
    if not issubclass(kind, Event):
        raise TypeError(f"{kind.__name__} has no form in JSON; expected an event")
    return EVENT_TYPES[value["type"]].model_validate_json(msgspec.json.encode(value))
