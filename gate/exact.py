"""Integers as arrays whose sums are exact, and the frozen streams that are drawn from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Octets = Callable[[int], bytes]
"""So many octets of a stream."""

_LARGEST = 2**62
_WORD = 2**32


def integers(values: Sequence[int], terms: int) -> Array:
    """A column of which `terms` values may be added: of 64 bits where no such sum overflows, else Python's integers."""
    largest = max(map(abs, values), default=0)
    return np.array(values, dtype=np.int64 if largest * max(terms, 1) < _LARGEST else object)


def octets(seed: int) -> Octets:
    """The octets of MT19937, seeded by the 64 low bits of `seed`: numpy never changes the streams of RandomState."""
    low, high = seed % _WORD, seed // _WORD % _WORD
    return np.random.RandomState([low, high]).bytes
