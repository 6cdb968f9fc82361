"""Processes of their own that do the same thing at the same time on one real database."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import TypeVar

from eventlog.database import open_engine
from eventlog.postgres import PostgresStore

T = TypeVar("T")
Racer = Callable[[PostgresStore, Barrier, int], T]
"""What a racer does with a store of its own; it waits at the barrier as often as all the others, and has a number."""

_WAIT_S = 100
_CONTEXT = multiprocessing.get_context("forkserver")
# Each racer imports the module that names it, and what that imports, unless it is there when the racer is forked.
_CONTEXT.set_forkserver_preload(["tests.integration.test_champion_races", "tests.integration.test_ledger_races"])

_barriers: list[Barrier] = []


def raced(racer: Racer[T], url: str, racers: int) -> list[T]:
    """What each of so many processes brings back, in order of their numbers. What one of them raises is raised here."""
    barrier = _CONTEXT.Barrier(racers, timeout=_WAIT_S)
    with ProcessPoolExecutor(racers, mp_context=_CONTEXT, initializer=_meet, initargs=(barrier,)) as pool:
        begun = [pool.submit(_run, racer, url, number) for number in range(racers)]
        return [each.result() for each in begun]


def _meet(barrier: Barrier) -> None:
    _barriers.append(barrier)


def _run(racer: Racer[T], url: str, number: int) -> T:
    engine = open_engine(url)
    try:
        return racer(PostgresStore(engine), _barriers[0], number)
    finally:
        engine.dispose()
