"""A log of many events of runs, appended by the store itself, from several processes at once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

from rich.progress import Progress

from benchmarks.made import batches
from eventlog.postgres import PostgresStore

from .appending import prepared, put
from .server import Server

PROCESSES = 2
BATCH = 1000

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.log.filling"])


def fill(server: Server, project: str, events: int) -> None:
    """Append until the project's log holds `events` events, a multiple of 1000 times the number of processes."""
    engine = server.engine(project)
    head = PostgresStore(engine).head()
    engine.dispose()
    share, rest = divmod(events - head, BATCH * PROCESSES)
    if rest or share < 0:
        raise ValueError(f"{head} events cannot be filled up to {events}: expected a multiple of {BATCH * PROCESSES}")
    jobs = [(server, project, f"made{head}x{number}", share) for number in range(PROCESSES)]
    with _CONTEXT.Pool(PROCESSES) as pool, Progress(transient=True) as progress:
        task = progress.add_task(f"filling up to {events:,} events", total=len(jobs) * share)
        for done in pool.imap_unordered(_append, _portions(jobs)):
            progress.advance(task, done)


_PORTION = 25
Job = tuple[Server, str, str, int]


def _portions(jobs: list[Job]) -> Iterator[Job]:
    """The same work in portions, so that there is something to show for it."""
    for server, project, prefix, share in jobs:
        for first in range(0, share, _PORTION):
            yield server, project, f"{prefix}-{first // _PORTION}", min(_PORTION, share - first)


def _append(job: Job) -> int:
    server, project, prefix, share = job
    engine = server.engine(project)
    store = PostgresStore(engine)
    for batch in batches(BATCH, share, prefix=prefix):
        put(store, prepared(batch))
    engine.dispose()
    return share
