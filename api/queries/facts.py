"""Facts that must be there."""

from __future__ import annotations

from typing import TypeVar

from ..errors import FactMissing

T = TypeVar("T")


def require(value: T | None) -> T:
    """Return a fact that the controller appends before anything asks for it. Raises FactMissing."""
    if value is None:
        raise FactMissing(actual="a champion, prices, a benchmark or an evaluation")
    return value
