"""Upcasting: (type, schema version) -> the next version's payload. Pure; stored rows are never edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import UpcasterMissing, UpcastFailed

Payload = dict[str, Any]
Upcaster = Callable[[Payload], Payload]


def _unshaped(payload: Payload) -> Payload:
    """RewardGraded 1 -> 2: what was not made then is None, and every run was graded for the first time."""
    terms = {**payload["terms"], "process": None, "progress": None}
    return {**payload, "terms": terms, "shaping": None, "shaped": None, "again": False}


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {("RewardGraded", 1): _unshaped}
"""One function for each version that was left behind; `(type, n)` gives the payload of version n + 1."""


def upcast(
    kind: str,
    schema_version: int,
    current: int,
    payload: Payload,
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> Payload:
    """Carry a payload from its version to the current one. Raises UpcasterMissing, UpcastFailed.

    A missing step is a bug, caught by tests; a payload that a step cannot carry has not the shape of its version.
    """
    for version in range(schema_version, current):
        step = steps.get((kind, version))
        if step is None:
            raise UpcasterMissing(type=kind, actual=version, expected=current)
        try:
            payload = step(payload)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UpcastFailed(type=kind, version=version, actual=repr(error)) from error
    return payload
