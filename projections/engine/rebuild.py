"""Rebuild projections beside the live builds: reading, folding and writing overlap, then the new builds become live.

A process that dies leaves a dead build, which the next rebuild of that fold removes.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from eventlog.database import first_line
from eventlog.store import EventStore, Position

from ..errors import RebuildLost
from .builds import (
    Bookmark,
    Build,
    claim_builds,
    create_builds,
    drop_unknown,
    live_builds,
    lock_builds,
    release,
    remove_dead_builds,
    switch,
    unknown,
)
from .folding import BuildPage, Log, fold_page, is_lost, put, trim_caches
from .projection import NOTHING, AnyFold
from .reader import PAGE, Columns, columns, read_page
from .rows import EventRow
from .table import StateCache

_READERS = 3
"""Number of connections that read ahead, one page each."""


def rebuild_folds(
    engine: Engine, store: EventStore, folds: Sequence[AnyFold], most: int, progress: Callable[[int], object] | None
) -> tuple[tuple[Bookmark, ...], dict[str, tuple[int, StateCache]]]:
    """Build these folds up to the head and make the builds live; return bookmarks and state caches.

    A build that is parked is not made live. Each cache holds about `most` states. Raises RebuildLost.
    """
    with _claim_folds(engine, folds) as guard:
        remove_dead_builds(guard, folds)
        line = _Line(engine, store, create_builds(guard, folds), {fold.name: fold for fold in folds}, most)
        with _pause_collector():
            line.run(progress, lambda: guard.exec_driver_sql("SELECT 1"))
        parts = line.finish()
        with suppress(OperationalError, InterfaceError):  # the new builds are live; the next rebuild removes dead ones
            remove_dead_builds(guard, folds)
    found = sorted((_bookmark(part) for part in parts), key=lambda one: one.projection)
    return tuple(found), {p.fold.name: (p.build.build, p.memory) for p in parts if not p.reason}


def prune(engine: Engine, folds: Sequence[AnyFold]) -> tuple[Bookmark, ...]:
    """Remove the builds of projections and versions other than those of `folds`, and the remains of aborted rebuilds.

    Returns the removed live builds. Code that still reads one of these projections builds it again from the start.
    """
    with _claim_folds(engine, folds) as guard:
        remove_dead_builds(guard, folds)
        found = unknown(guard, folds)
        drop_unknown(guard, found)
    return tuple(found)


@contextmanager
def _claim_folds(engine: Engine, folds: Sequence[AnyFold]) -> Iterator[Connection]:
    """A session that holds the build lock of these folds. Raises RebuildLost if the session is lost."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as guard:
        try:
            claim_builds(guard, folds)
            yield guard
        except DBAPIError as error:
            if guard.invalidated:
                raise RebuildLost(actual=first_line(error)) from error
            raise
        finally:
            _let_go(guard, folds)


def _let_go(guard: Connection, folds: Sequence[AnyFold]) -> None:
    """Release a session's build lock. If that fails, close the session, so that no lock returns to the pool."""
    if guard.invalidated:
        return
    try:
        release(guard, folds)
    except DBAPIError:
        guard.invalidate()


def _bookmark(part: BuildPage) -> Bookmark:
    place = Position(part.memory.position)
    build = part.build
    return Bookmark(build.projection, build.version, place, place if part.reason else None, part.reason)


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Disable cyclic garbage collection: rows and states hold no cycles, and scanning them takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Line:
    """New builds that advance to the head together, all at one position. Parked ones are set aside."""

    def __init__(
        self, engine: Engine, store: EventStore, builds: Sequence[Build], folds: dict[str, AnyFold], most: int
    ) -> None:
        self._engine, self._store, self._most, self._position = engine, store, most, 0
        self._going = [BuildPage(build, folds[build.projection], StateCache(0, is_whole=True)) for build in builds]
        self._parked: list[BuildPage] = []
        self._left_out = NOTHING
        self._writing: Future[None] | None = None

    def run(self, progress: Callable[[int], object] | None, ping: Callable[[], object]) -> None:
        """Fold up to the head, which may advance meanwhile. `ping` is called for each page to raise on a lost lock."""
        with ExitStack() as stack:
            reading, writing = (stack.enter_context(self._engine.connect()) for _ in range(2))
            reading = reading.execution_options(isolation_level="AUTOCOMMIT")
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="rebuild"))
            while self._going and self._position < (head := self._store.head()):
                wanted = columns(part.fold for part in self._going)
                for finish, rows in read_ahead(self._engine, self._store, wanted, self._position, head):
                    parts = self._fold(Log(reading, self._store, self._settle), rows, finish)
                    self._settle()
                    self._writing = writer.submit(_write, writing, parts, finish)
                    if progress is not None:
                        progress(finish)
                    ping()
            self._settle()

    def _fold(self, log: Log, rows: list[EventRow], finish: int) -> list[BuildPage]:
        parts = [BuildPage(part.build, part.fold, part.memory) for part in self._going]
        self._left_out = fold_page(log, parts, rows, self._left_out)
        for _ in trim_caches(parts, finish, self._most):
            pass
        self._going = [part for part in parts if not part.reason]
        self._parked += [part for part in parts if part.reason]
        self._position = finish
        return parts

    def _settle(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None
            self._parked += [part for part in self._going if part.reason]
            self._going = [part for part in self._going if not part.reason]

    def finish(self) -> list[BuildPage]:
        """Catch up with the live builds, make the new builds live, and return all parts, including parked ones."""
        with self._engine.begin() as connection:
            builds, _ = live_builds(connection, [part.fold for part in self._going])
            fresh = {part.build.build for part in self._going}
            locked = lock_builds(connection, [*builds, *(part.build for part in self._going)])
            if gone := fresh - {build.build for build in locked}:
                raise RebuildLost(actual=f"another rebuild removed {len(gone)} of the tables that it was building")
            target = max((build.position for build in locked if build.build not in fresh), default=0)
            target = min(target, self._store.head())  # a bookmark ahead of the log is wrong
            while self._going and self._position < target:
                upto = min(self._position + PAGE, target)
                wanted = columns(part.fold for part in self._going)
                rows = read_page(connection, self._store, wanted, self._position, upto)
                put(connection, self._fold(Log(connection, self._store, int), rows, upto), upto)
            switch(connection, [part.build for part in self._going])
        return [*self._going, *self._parked]


def _write(connection: Connection, parts: Sequence[BuildPage], finish: int) -> None:
    try:
        _write_once(connection, parts, finish, singly=False)
    except DBAPIError as error:
        if is_lost(error):
            raise
        _write_once(connection, parts, finish, singly=True)


def _write_once(connection: Connection, parts: Sequence[BuildPage], finish: int, *, singly: bool) -> None:
    """Write without waiting for the disk: nothing reads these rows yet, so a lost commit only has to be repeated."""
    with connection.begin():
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
        put(connection, parts, finish, singly=singly)


def read_ahead(
    engine: Engine, store: EventStore, wanted: Columns, start: int, finish: int
) -> Iterator[tuple[int, list[EventRow]]]:
    """Pages in order, each with its last position, prefetched while the caller works."""
    spans = deque((after, min(after + PAGE, finish)) for after in range(start, finish, PAGE))
    with ExitStack() as stack:
        free: SimpleQueue[Connection] = SimpleQueue()
        for _ in range(_READERS):
            connection = stack.enter_context(engine.connect())
            free.put(connection.execution_options(isolation_level="AUTOCOMMIT"))
        pool = stack.enter_context(ThreadPoolExecutor(_READERS, thread_name_prefix="reader"))
        waiting: deque[tuple[int, Future[list[EventRow]]]] = deque()
        while spans or waiting:
            while spans and len(waiting) < _READERS:
                after, upto = spans.popleft()
                waiting.append((upto, pool.submit(_read, free, store, wanted, after, upto)))
            reached, future = waiting.popleft()
            yield reached, future.result()


def _read(free: SimpleQueue[Connection], store: EventStore, wanted: Columns, after: int, upto: int) -> list[EventRow]:
    connection = free.get()
    try:
        return read_page(connection, store, wanted, after, upto)
    finally:
        free.put(connection)
