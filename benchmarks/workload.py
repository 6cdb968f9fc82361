"""Fills a log with many events of runs through the store, with separate processes to generate and to commit them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from math import ceil

from rich.progress import Progress

from benchmarks.made import CYCLE, EVENTS_A_CYCLE, encoded_of_run
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.store import Committed

PROCESSES = 2
_CYCLES = 4
"""Cycles of runs per commit."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.workload"])

Job = tuple[str, str, str, int, int]


def fill(url: str, project: str, events: int) -> int:
    """Append until the project's log holds at least `events` events; return their number."""
    engine = open_engine(url, project)
    store = PostgresStore(engine)
    before = store.head()
    cycles = ceil((events - before) / EVENTS_A_CYCLE)
    if cycles > 0:
        with _CONTEXT.Pool(PROCESSES) as pool, Progress(transient=True) as progress:
            task = progress.add_task(f"filling up to {events:,} events", total=cycles * EVENTS_A_CYCLE)
            for done in pool.imap_unordered(_append, _jobs(url, project, f"made{before}", cycles)):
                progress.advance(task, done)
    after = store.head()
    engine.dispose()
    return after


def _jobs(url: str, project: str, prefix: str, cycles: int) -> Iterator[Job]:
    for first in range(0, cycles, _CYCLES):
        yield url, project, prefix, first * CYCLE, min(first + _CYCLES, cycles) * CYCLE


def _append(job: Job) -> int:
    url, project, prefix, first, end = job
    requests = [request for number in range(first, end) for request in encoded_of_run(number, prefix)]
    engine = open_engine(url, project)
    outcomes = PostgresStore(engine).append_encoded(requests)
    engine.dispose()
    if not all(isinstance(outcome, Committed) for outcome in outcomes):
        raise ValueError(f"an append was refused: {next(o for o in outcomes if not isinstance(o, Committed))}")
    return sum(len(request.events) for request in requests)
