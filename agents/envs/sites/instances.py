"""The open instances of one site: isolated from each other, and limited in number."""

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
    """Factory of the state of a site's instances."""

    def __call__(self, seed: int, repeat: int = 0) -> S_co:
        """Fresh state for a seed and a noise index (of a sibling or a repetition)."""
        ...


@dataclass(slots=True)
class _Opened(Generic[S]):
    state: S
    repeat: int
    conditions: Conditions
    arrivals: int = 0


class Instances(Generic[S]):
    """Instances by secret id; beyond the capacity, the least recently used one is dropped.

    `conditions` apply to every new instance; `expose` changes them for one instance.
    """

    def __init__(self, start: StateFactory[S], capacity: int = CAPACITY, conditions: Conditions = CLEAR) -> None:
        self._start = start
        self._capacity = capacity
        self._conditions = conditions
        self._open: OrderedDict[str, _Opened[S]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def mint(self, seed: int, repeat: int = 0) -> str:
        """Open an instance for a seed and a noise index, and return its id."""
        instance = secrets.token_hex(16)
        self._open[instance] = self._make(seed, repeat)
        while len(self._open) > self._capacity:
            self._open.popitem(last=False)
        return instance

    def restart(self, instance: str, seed: int, repeat: int = 0) -> None:
        """Restart an open instance from a seed, under the same id and with the site's default conditions."""
        self._open[instance] = self._make(seed, repeat)
        self._open.move_to_end(instance)

    def find(self, instance: str) -> S | None:
        """An open instance, which is thereby marked as used; None if no instance has this id."""
        found = self._open.get(instance)
        if found is None:
            return None
        self._open.move_to_end(instance)
        return found.state

    def arrival(self, instance: str) -> Fate:
        """Count a page request of an instance, and return its outcome under the instance's conditions."""
        found = self._open.get(instance)
        if found is None:
            return UNHARMED
        found.arrivals += 1
        return fate(found.conditions, seed=found.state.seed, repeat=found.repeat, number=found.arrivals)

    def conditions(self, instance: str) -> Conditions:
        """Conditions of an instance; the site's default if it is not open."""
        found = self._open.get(instance)
        return self._conditions if found is None else found.conditions

    def expose(self, instance: str, conditions: Conditions) -> None:
        """Change the conditions of an open instance until it is restarted or closed."""
        found = self._open.get(instance)
        if found is not None:
            found.conditions = conditions

    def close(self, instance: str) -> None:
        """Close an instance; does nothing if it is not open."""
        self._open.pop(instance, None)

    def _make(self, seed: int, repeat: int) -> _Opened[S]:
        return _Opened(self._start(seed, repeat), repeat, self._conditions)
