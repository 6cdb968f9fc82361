"""Leases: exclusive use of a single-instance site by one run, from its reset to its grade.

A lease is taken by key. This module has the protocol, an implementation for the threads of one process, and an
Environment that holds a lease while an instance is open; `api/environments/leases.py` has one for many machines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from .contract import Graded, Health, Instance, InstanceState, Mutation
from .environment import Connected, Environment, instance_id
from .errors import InstanceClosed, LeaseTaken

PATIENCE_S: Final = 600.0


class Lease(Protocol):
    """`with lease(key) as check:` holds the key exclusively; `check()` raises LeaseLost once it is no longer held.

    Entering raises LeaseTaken after a timeout.
    """

    def __call__(self, key: str) -> AbstractContextManager[Callable[[], None]]:
        """Take the lease of a key, and release it at the end of the block."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadLeases:
    """Leases among the threads of this process; they cannot be lost."""

    patience_s: float = PATIENCE_S
    _taken: dict[str, str] = field(default_factory=dict, repr=False)
    _given_back: threading.Condition = field(default_factory=threading.Condition, repr=False)

    @contextmanager
    def __call__(self, key: str) -> Iterator[Callable[[], None]]:
        """Hold a key. Raises LeaseTaken, with the name of the thread that holds it."""
        with self._given_back:
            if not self._given_back.wait_for(lambda: key not in self._taken, self.patience_s):
                raise LeaseTaken(key=key, timeout_s=self.patience_s, actual=f"the thread {self._taken[key]}")
            self._taken[key] = threading.current_thread().name
        try:
            yield _check_nothing
        finally:
            with self._given_back:
                del self._taken[key]
                self._given_back.notify_all()


def _check_nothing() -> None:
    """Check nothing: a lease inside one process lasts as long as the process."""


def with_lease(environment: Environment, lease: Lease, key: str | None = None) -> Leased:
    """An Environment that holds the lease of a key from each reset until the instance is closed.

    The default key is the address of the admin surface: give a key if the site has several addresses.
    """
    return Leased(environment, lease, f"site {environment.admin_url}" if key is None else key)


@dataclass(frozen=True, slots=True)
class _Held:
    stack: ExitStack
    check: Callable[[], None]


class Leased(Connected):
    """Environment under a lease, made by `with_lease`. Threads may share it: each reset waits for the lease.

    A failed reset or close also releases the lease. `oracle`, `mutations` and `state` raise LeaseLost if the lease was
    lost before the answer came, because the answer may then mix several runs.
    """

    def __init__(self, environment: Environment, lease: Lease, key: str) -> None:
        self._environment = environment
        self._lease = lease
        self._held: dict[str, _Held] = {}
        self.key = key

    @property
    def admin_url(self) -> str:
        """Address of the site's admin surface."""
        return self._environment.admin_url

    @property
    def page_headers(self) -> Mapping[str, str]:
        """Headers that page requests to the site must carry."""
        return self._environment.page_headers

    @property
    def has_record(self) -> bool:
        """True if the site records changes."""
        return self._environment.has_record

    def disconnect(self) -> None:
        """Close the connections and release the lease if it is held."""
        try:
            self._environment.disconnect()
        finally:
            while self._held:
                self._held.popitem()[1].stack.close()

    def health(self) -> Health:
        """Health of the site; needs no lease."""
        return self._environment.health()

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """Wait for the lease, then reset; a given instance holds the lease already. Raises LeaseTaken."""
        if instance is not None:
            check = self._of(instance).check
            again = self._environment.reset(seed, instance=instance, repeat=repeat)
            check()
            return again
        with ExitStack() as stack:
            check = stack.enter_context(self._lease(self.key))
            made = self._environment.reset(seed, repeat=repeat)
            self._held[made.instance] = _Held(stack.pop_all(), check)
        return made

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """Grade an instance. Raises LeaseLost if another run may have acted on it."""
        held = self._of(instance)
        graded = self._environment.oracle(instance, task_id)
        held.check()
        return graded

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """Read an instance's changes."""
        held = self._of(instance)
        found = self._environment.mutations(instance, since_id)
        held.check()
        return found

    def state(self, instance: Instance | str) -> InstanceState:
        """Read an instance's state."""
        held = self._of(instance)
        state = self._environment.state(instance)
        held.check()
        return state

    def close(self, instance: Instance | str) -> None:
        """Close an instance and release the lease, even if closing fails."""
        held = self._of(instance)
        try:
            self._environment.close(instance)
        finally:
            if self._held.pop(instance_id(instance), None) is not None:
                held.stack.close()

    def _of(self, instance: Instance | str) -> _Held:
        held = self._held.get(instance_id(instance))
        if held is None:
            raise InstanceClosed(url=self.admin_url, actual=instance_id(instance))
        return held
