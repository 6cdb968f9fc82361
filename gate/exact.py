"""Integer arrays with exact sums, and frozen random streams. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Octets = Callable[[int], bytes]
"""Returns the next given number of octets of a random stream."""

_LARGEST = 2**62
_WORD = 2**32


def integers(values: Sequence[int], terms: int) -> Array:
    """An array of which any `terms` values sum exactly: 64-bit if no such sum overflows, else Python integers."""
    largest = max(map(abs, values), default=0)
    return np.array(values, dtype=np.int64 if largest * max(terms, 1) < _LARGEST else object)


def octets(seed: int) -> Octets:
    """Octets of MT19937, seeded by the 64 low bits of `seed`: numpy guarantees the streams of RandomState."""
    low, high = seed % _WORD, seed // _WORD % _WORD
    return np.random.RandomState([low, high]).bytes
