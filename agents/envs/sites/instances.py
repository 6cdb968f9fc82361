"""The open instances of one site: isolated from each other, and never more than a fixed number."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from .conditions import CLEAR, UNHARMED, Conditions, Fate, fate
from .site import Simulation

S = TypeVar("S", bound=Simulation)
S_co = TypeVar("S_co", bound=Simulation, covariant=True)
CAPACITY: Final = 512


class StateFactory(Protocol[S_co]):
    """How a site makes the state of an instance."""

    def __call__(self, seed: int, repeat: int = 0) -> S_co:
        """A fresh state from a seed, and the noise of a sibling or repeat index."""
        ...


@dataclass(slots=True)
class _Opened(Generic[S]):
    state: S
    repeat: int
    conditions: Conditions
    arrivals: int = 0


class Instances(Generic[S]):
    """Instances by their secret id; the one that was left alone for longest makes room for a new one.

    `conditions` are those of every instance that is made; one instance can be given others.
    """

    def __init__(self, start: StateFactory[S], capacity: int = CAPACITY, conditions: Conditions = CLEAR) -> None:
        self._start = start
        self._capacity = capacity
        self._conditions = conditions
        self._open: OrderedDict[str, _Opened[S]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def mint(self, seed: int, repeat: int = 0) -> str:
        """Open a new instance made from the seed and the index of its noise, and return its id."""
        instance = secrets.token_hex(16)
        self._open[instance] = self._make(seed, repeat)
        while len(self._open) > self._capacity:
            self._open.popitem(last=False)
        return instance

    def restart(self, instance: str, seed: int, repeat: int = 0) -> None:
        """Make an open instance anew from the seed, under the id it has; it gets the site's conditions again."""
        self._open[instance] = self._make(seed, repeat)
        self._open.move_to_end(instance)

    def find(self, instance: str) -> S | None:
        """Return an open instance and count that as a use of it; None if there is none of that id."""
        found = self._open.get(instance)
        if found is None:
            return None
        self._open.move_to_end(instance)
        return found.state

    def arrival(self, instance: str) -> Fate:
        """Count a page request of an instance and say what becomes of it."""
        found = self._open.get(instance)
        if found is None:
            return UNHARMED
        found.arrivals += 1
        return fate(found.conditions, seed=found.state.seed, repeat=found.repeat, number=found.arrivals)

    def conditions(self, instance: str) -> Conditions:
        """The conditions of an instance; the site's where none of that id is open."""
        found = self._open.get(instance)
        return self._conditions if found is None else found.conditions

    def expose(self, instance: str, conditions: Conditions) -> None:
        """Give an open instance other conditions, until it is made anew or closed."""
        found = self._open.get(instance)
        if found is not None:
            found.conditions = conditions

    def close(self, instance: str) -> None:
        """Forget an instance; closing one that is not open changes nothing."""
        self._open.pop(instance, None)

    def _make(self, seed: int, repeat: int) -> _Opened[S]:
        return _Opened(self._start(seed, repeat), repeat, self._conditions)
