"""The JSON form of values that msgspec has no form for."""

from __future__ import annotations

from eventlog.events import FrozenModel


def encode_value(value: object) -> object:
    """An event as its fields, anything else as text."""
    return value.model_dump(mode="json") if isinstance(value, FrozenModel) else str(value)
