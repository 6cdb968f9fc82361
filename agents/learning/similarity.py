"""How much two texts mean the same, by a static embedding model in integers: every machine ranks alike. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Final

from .ranking import WHOLE

LEAST_LIKENESS: Final = 600_000
"""How much a step has to mean what an occasion says, in millionths, where it lacks the words."""

_KEPT: Final = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """A static embedding model: `rows` has `dimension` integers for each token id, one after the other.

    `tokens` splits a text into ids; `digest` (SHA-256) is over the files that all of it was read from.
    """

    digest: str
    dimension: int
    rows: Sequence[int]
    tokens: Callable[[str], Sequence[int]]

    def vector(self, text: str) -> tuple[int, ...]:
        """The sum of the rows of a text's tokens; zeros where it has none."""
        places = [self.dimension * token for token in self.tokens(text)]
        rows = (self.rows[place : place + self.dimension] for place in places)
        return tuple(map(sum, zip(*rows, strict=True))) if places else (0,) * self.dimension

    def likeness(self, one: str, other: str) -> int:
        """The cosine of two texts in millionths; what is not alike at all is 0."""
        return cosine_micro(_vector(self, one), _vector(self, other))


def cosine_micro(one: Sequence[int], other: Sequence[int]) -> int:
    """The cosine of two vectors of one length in millionths, by integer square root; 0 where it would be below."""
    shared = _product(one, other)
    if shared <= 0:
        return 0
    return min(WHOLE, WHOLE * shared // isqrt(_product(one, one) * _product(other, other)))


def blend_scores(shared: int, most: int, likeness: int) -> int:
    """One score of two: what a text shares in words, as millionths of the `most` that any shares, and its likeness."""
    return likeness + (WHOLE * shared // most if most else 0)


def _product(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(one, other, strict=True))


@lru_cache(maxsize=_KEPT)
def _vector(embeddings: Embeddings, text: str) -> tuple[int, ...]:
    return embeddings.vector(text)
