"""Noise of an instance: drawn from its seed and its sibling or repeat index, independent of the agent's actions.

It is not part of the fingerprint: siblings of one instance start equal and meet different troubles, a repetition meets
the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WHOLE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Noise:
    """Random draws for one seed and one noise index."""

    seed: int
    repeat: int

    def happens(self, what: str, per_mille: int) -> bool:
        """True if the named event happens in this instance; its probability is `per_mille` / 1000."""
        rng = random.Random(f"noise:{self.seed}:{self.repeat}:{what}")  # noqa: S311 (a repeatable stream is wanted)
        return rng.randrange(WHOLE) < per_mille


class Troubles:
    """Transient troubles of one instance: each drawn trouble is met once."""

    def __init__(self, noise: Noise, odds: Mapping[str, int]) -> None:
        self._ahead = {what for what, per_mille in odds.items() if noise.happens(what, per_mille)}

    def meet(self, what: str) -> bool:
        """True if this trouble is met now; it is not met again."""
        is_ahead = what in self._ahead
        self._ahead.discard(what)
        return is_ahead
