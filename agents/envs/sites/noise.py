"""Noise of an instance: drawn from its seed and its sibling or repeat index, and from nothing that an agent does.

It is outside the fingerprint: siblings of one instance start equal and meet different troubles, a repetition meets the
same ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WHOLE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Noise:
    """The draws of one seed and one index."""

    seed: int
    repeat: int

    def happens(self, what: str, per_mille: int) -> bool:
        """Whether a thing with this name happens here, as it does in so many of a thousand instances."""
        rng = random.Random(f"noise:{self.seed}:{self.repeat}:{what}")  # noqa: S311 (a repeatable stream is wanted)
        return rng.randrange(WHOLE) < per_mille


class Troubles:
    """The passing troubles of one instance: each one that was drawn is met once, and then no more."""

    def __init__(self, noise: Noise, odds: Mapping[str, int]) -> None:
        self._ahead = {what for what, per_mille in odds.items() if noise.happens(what, per_mille)}

    def meet(self, what: str) -> bool:
        """Whether this trouble is met now."""
        is_ahead = what in self._ahead
        self._ahead.discard(what)
        return is_ahead
