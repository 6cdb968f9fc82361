"""The rule by which a soak calls memory, connections and file handles flat. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FLOORS: Mapping[str, float] = {"memory MiB": 8.0, "sockets": 3.0, "file handles": 3.0, "connections": 3.0}
"""What may be added to each measure without a share of it, because pools and caches breathe."""

SHARE = 0.05
_THIRDS = 3


@dataclass(frozen=True, slots=True)
class Growth:
    """Medians of the middle and the last third of the samples, and the growth that still counts as flat."""

    middle: float
    last: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        """True if the last third is not above the middle one by more than what is allowed."""
        return self.last - self.middle <= self.allowed


def growth(measure: str, samples: Sequence[float]) -> Growth | None:
    """The growth of one measure of one process: 5 % or the measure's floor is allowed; None with too few samples.

    The first third is a warm-up, in which imports, pools and caches fill, and is left out.
    """
    third = len(samples) // _THIRDS
    if third < 1:
        return None
    middle, last = statistics.median(samples[third : -third or None]), statistics.median(samples[-third:])
    return Growth(middle, last, max(SHARE * middle, FLOORS[measure]))
