"""Loops that are killed with SIGKILL at an append, resumed, and compared with one that ran through."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agents.executors.delegation.journal import CLOCK, LoopJournal
from agents.executors.delegation.loop import DelegationLoop, LoopMeans
from agents.executors.delegation.opening import Opening, open_loop
from agents.rollouts.record import stopwatch
from eventlog.blobs import BlobStore
from eventlog.events import AnyEvent, LoopConfig
from eventlog.store import Append, EventStore, Outcome
from projections.delegation.budgets import loop_stream

from .world import World


class DyingStore:
    """A store whose process is killed at its n-th append: before it writes if n is odd, else right after."""

    def __init__(self, store: EventStore, at: int) -> None:
        self._store, self._at, self._numbers = store, at, itertools.count(1)

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        """See EventStore.append."""
        number = next(self._numbers)
        if number == self._at and number % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        outcomes = self._store.append(requests)
        if number == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        return outcomes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def run_world(
    store: Any, blobs: BlobStore, loop: str, world: World, means: LoopMeans, config: LoopConfig
) -> LoopJournal:
    """Open a loop on a world, or go on with it, and return its journal at the end."""
    journal = LoopJournal(store, blobs, loop, stopwatch)
    if not journal.state.status:
        opening = Opening(
            world.task, means.manager.name, means.worker.name, config, world.seed, means.sandbox.kind, graded=True
        )
        open_loop(journal, opening)
    DelegationLoop(journal, means).run()
    return journal


def in_child(work: Callable[[], None]) -> int:
    """Run work in a forked process and wait for it. Returns its exit status; 9 if it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 the parent reads the status
            os._exit(70)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def comparable(events: Iterable[AnyEvent], loop: str) -> list[str]:
    """The events of a loop without its name, the charges for time and for what was lost, and the interleaving."""
    lines = []
    for event in events:
        if event.type == "BudgetReserved":
            continue
        if event.type == "BudgetSettled" and (event.is_lost or event.reservation == CLOCK):
            continue
        facts = event.model_dump(mode="json")
        if event.type == "BudgetSettled":
            facts["amounts"]["wall"] = 0
        lines.append(json.dumps(facts, sort_keys=True).replace(loop, "LOOP"))
    return sorted(lines)


def events_of(store: EventStore, loop: str) -> list[AnyEvent]:
    """The events of a loop, in order."""
    return [recorded.event for recorded in store.read(stream=loop_stream(loop))]
