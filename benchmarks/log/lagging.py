"""Projector lag under a steady writer: the time from an append's acknowledgement to the projections' bookmarks."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from bisect import bisect_left
from collections.abc import Sequence
from multiprocessing.connection import Connection

from benchmarks.made import batches
from benchmarks.report import Target, at_least, at_most, percentile
from eventlog.postgres import PostgresStore
from eventlog.store import Position
from projections.engine import builds
from projections.engine.projector import Projector

from .appending import prepared, put
from .rebuilding import caught_up
from .server import Server

RATE = 2000
BATCH = 20

RATIO = "catch-up lag p99 / append p99"
LAG = "catch-up lag p99, ms"
KEPT_UP = "catch-up events appended, events/s"
TARGETS: dict[str, Target] = {KEPT_UP: at_least(0.95 * RATE), LAG: at_most(250), RATIO: at_most(10)}

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.log.lagging"])

Moment = tuple[float, int]
"""Monotonic time in seconds, comparable across processes, and a position."""


def lags(server: Server, project: str, seconds: float) -> dict[str, float]:
    """Percentiles of the lag over all events of a steady load, after the projections have caught up."""
    engine = server.engine(project)
    store = PostgresStore(engine)
    caught_up(engine)
    start, commits = store.head(), round(seconds * RATE / BATCH)
    ours, theirs = _CONTEXT.Pipe()
    follower = _CONTEXT.Process(target=follow, args=(server, project, start + commits * BATCH, theirs))
    follower.start()
    ours.recv()
    writing, written = _CONTEXT.Pipe()
    writer = _CONTEXT.Process(target=write, args=(server, project, commits, written))
    writer.start()
    acknowledged: list[tuple[float, int, float]] = writing.recv()
    reached: list[Moment] = ours.recv()
    for process in (writer, follower):
        process.join()
    behind = [lag.projection for lag in builds.lags(engine) if lag.events or lag.is_parked]
    engine.dispose()
    if behind:
        raise ValueError(f"{', '.join(behind)} did not reach the head; expected all projections at the head")
    return _figures(acknowledged, reached)


def write(server: Server, project: str, commits: int, out: Connection) -> None:
    """Append batches at a steady rate; send (acknowledgement time, head, seconds taken) of each."""
    engine = server.engine(project)
    store = PostgresStore(engine)
    ready = [prepared(batch) for batch in batches(BATCH, commits, prefix=f"lag{store.head()}")]
    found: list[tuple[float, int, float]] = []
    began = time.monotonic()
    for number, requests in enumerate(ready):
        time.sleep(max(0.0, began + number * BATCH / RATE - time.monotonic()))
        asked = time.monotonic()
        put(store, requests)
        now = time.monotonic()
        found.append((now, store.head() if number == 0 else found[-1][1] + BATCH, now - asked))
    out.send(found)
    engine.dispose()


def follow(server: Server, project: str, end: int, out: Connection) -> None:
    """Fold on every notification; send the time at which each position was reached."""
    engine = server.engine(project)
    store, projector = PostgresStore(engine), Projector(engine)
    reached: list[Moment] = []

    def is_over(position: Position) -> bool:
        return position >= end

    start = store.head()
    out.send("ready")
    for _ in store.subscribe(after=start, until=is_over):
        position = projector.catch_up()
        reached.append((time.monotonic(), position))
    out.send(reached)
    engine.dispose()


def _figures(acknowledged: Sequence[tuple[float, int, float]], reached: Sequence[Moment]) -> dict[str, float]:
    positions = [position for _, position in reached]
    behind = [max(0.0, reached[bisect_left(positions, head)][0] - at) for at, head, _ in acknowledged]
    took = [seconds for *_, seconds in acknowledged]
    lasted = acknowledged[-1][0] - acknowledged[0][0] + took[0]
    return {
        KEPT_UP: len(acknowledged) * BATCH / lasted,
        "catch-up append p50, ms": statistics.median(took) * 1000,
        "catch-up append p99, ms": percentile(took, 0.99) * 1000,
        "catch-up lag p50, ms": statistics.median(behind) * 1000,
        LAG: percentile(behind, 0.99) * 1000,
        RATIO: percentile(behind, 0.99) / percentile(took, 0.99),
    }
