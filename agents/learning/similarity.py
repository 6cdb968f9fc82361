"""Similarity of texts by a static embedding model, in integers so that every machine ranks alike. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Final

from .ranking import WHOLE

LEAST_LIKENESS: Final = 600_000
"""Least similarity (millionths) of a step's intent to an occasion's if the step lacks the occasion's words."""

_KEPT: Final = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """A static embedding model: `rows` has `dimension` integers for each token id, one after the other.

    `tokens` splits a text into ids; `digest` is the SHA-256 of the model's files.
    """

    digest: str
    dimension: int
    rows: Sequence[int]
    tokens: Callable[[str], Sequence[int]]

    def vector(self, text: str) -> tuple[int, ...]:
        """Sum of the rows of a text's tokens; zeros if it has none."""
        places = [self.dimension * token for token in self.tokens(text)]
        rows = (self.rows[place : place + self.dimension] for place in places)
        return tuple(map(sum, zip(*rows, strict=True))) if places else (0,) * self.dimension

    def likeness(self, one: str, other: str) -> int:
        """Cosine similarity of two texts in millionths, at least 0."""
        return cosine_micro(_vector(self, one), _vector(self, other))


def cosine_micro(one: Sequence[int], other: Sequence[int]) -> int:
    """Cosine of two vectors of equal length in millionths, by integer square root; 0 if it is negative."""
    shared = _product(one, other)
    if shared <= 0:
        return 0
    return min(WHOLE, WHOLE * shared // isqrt(_product(one, one) * _product(other, other)))


def blend_scores(shared: int, most: int, likeness: int) -> int:
    """Sum of a text's likeness and its word score `shared`, scaled to millionths of the highest word score `most`."""
    return likeness + (WHOLE * shared // most if most else 0)


def _product(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(one, other, strict=True))


@lru_cache(maxsize=_KEPT)
def _vector(embeddings: Embeddings, text: str) -> tuple[int, ...]:
    return embeddings.vector(text)
