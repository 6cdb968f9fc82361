"""Upcasting: (type, schema version) -> the next version's payload. Pure; stored rows are never edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Payload = dict[str, Any]
Upcaster = Callable[[Payload], Payload]

UPCASTERS: Mapping[tuple[str, int], Upcaster] = {}
"""One function for each version that was left behind; `(type, n)` gives the payload of version n + 1."""


def upcast(
    kind: str,
    schema_version: int,
    current: int,
    payload: Payload,
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> Payload:
    """Carry a payload from its version to the current one. A missing step is a KeyError: a bug, caught by tests."""
    for version in range(schema_version, current):
        payload = steps[kind, version](payload)
    return payload
