"""The open instances of one site: isolated from each other, and never more than a fixed number."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from .site import Simulation

S = TypeVar("S", bound=Simulation)
CAPACITY: Final = 512


class Instances(Generic[S]):
    """Instances by their secret id; the one that was left alone for longest makes room for a new one."""

    def __init__(self, start: Callable[[int], S], capacity: int = CAPACITY) -> None:
        self._start = start
        self._capacity = capacity
        self._open: OrderedDict[str, S] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def mint(self, seed: int) -> str:
        """Open a new instance made from the seed and return its id."""
        instance = secrets.token_hex(16)
        self._open[instance] = self._start(seed)
        while len(self._open) > self._capacity:
            self._open.popitem(last=False)
        return instance

    def restart(self, instance: str, seed: int) -> None:
        """Make an open instance anew from the seed, under the id it has."""
        self._open[instance] = self._start(seed)
        self._open.move_to_end(instance)

    def find(self, instance: str) -> S | None:
        """Return an open instance and count that as a use of it; None if there is none of that id."""
        found = self._open.get(instance)
        if found is not None:
            self._open.move_to_end(instance)
        return found

    def close(self, instance: str) -> None:
        """Forget an instance; closing one that is not open changes nothing."""
        self._open.pop(instance, None)
