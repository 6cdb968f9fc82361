"""How many requests a caller may send: a bucket for each, which fills by the second and holds ten seconds' worth."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from fastapi import Request

from ..house import House
from .errors import TooManyRequests

BURST_S: Final = 10.0
_REMEMBERED: Final = 10_000
"""Callers that are remembered; who was forgotten has a full bucket."""


@dataclass
class RateLimit:
    """Buckets by caller. Thread-safe."""

    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def take(self, caller: str, per_second: float) -> None:
        """Take one request from a caller's bucket. Raises TooManyRequests."""
        most = max(1.0, per_second * BURST_S)
        with self._lock:
            now = self.clock()
            left, since = self._buckets.get(caller, (most, now))
            left = min(most, left + (now - since) * per_second)
            is_enough = left >= 1
            self._buckets[caller] = (left - is_enough, now)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
        if not is_enough:
            raise TooManyRequests(caller=caller, expected=per_second, seconds=math.ceil((1 - left) / per_second))


def take_request(request: Request, house: House, caller: str) -> None:
    """Count a request of a caller, if the settings bound how many there may be. Raises TooManyRequests."""
    per_second = house.settings.requests_per_second
    if per_second is not None:
        limit: RateLimit = request.app.state.rates
        limit.take(caller, per_second)
