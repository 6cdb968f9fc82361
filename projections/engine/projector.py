"""The shell around the folds: reads the log once for all of them, writes rows and position in one transaction.

A build's row is its lock: a batch locks it, folds on from its position, and moves it. A second projector waits for that
lock and then sees a position that is not the one its memory stands at, so it drops its memory and reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from eventlog.postgres import PostgresStore
from eventlog.store import EventStore, Position

from .. import ALL
from .builds import Bookmark, Build, live_builds, lock_live
from .folding import BuildPage, Log, fold_page, is_lost, put, trim_caches
from .projection import AnyFold
from .reader import PAGE, columns, read_page, read_withdrawals
from .rebuild import rebuild_folds
from .table import StateCache

_BATCH = PAGE
_MOST_KEYS = 10_000

Progress = Callable[[int], object]
"""Called with the position that was reached."""


class Projector:
    """Keeps fold tables up to date with the log; remembers the states it folded last. Threads may share it."""

    def __init__(self, engine: Engine, folds: Sequence[AnyFold] = ALL, store: EventStore | None = None) -> None:
        self._engine = engine
        self._store = PostgresStore(engine) if store is None else store
        self._folds = {fold.name: fold for fold in folds}
        self._memory: dict[str, tuple[int, StateCache]] = {}
        self._withdrawn: tuple[int, frozenset[str]] = (0, frozenset())

    def catch_up(self, upto: Position | None = None, *, progress: Progress | None = None) -> Position:
        """Fold everything up to `upto` (default: the head) and say how far that is. A parked fold stays where it is."""
        target = upto
        with self._engine.connect() as connection:
            while True:
                try:
                    target, reached, is_there = self._once(connection, target, singly=False)
                except DBAPIError as error:
                    if is_lost(error):
                        raise
                    target, reached, is_there = self._once(connection, target, singly=True)
                if reached and progress is not None:
                    progress(reached)
                if is_there:
                    return target

    def _once(self, connection: Connection, upto: Position | None, *, singly: bool) -> tuple[Position, int, bool]:
        """One batch: the target, the position that was reached (0: nothing was folded), whether all are there."""
        with connection.begin():
            builds, head = live_builds(connection, list(self._folds.values()))
            # a log with an empty table may have been archived whole
            target = upto if upto is not None else head or self._store.head()
            behind = [build for build in builds if not build.is_parked and build.position < target]
            if not behind:
                return target, 0, True
            reached, folded = self._batch(connection, behind, target, singly=singly)
        return target, reached, reached == target and folded == len(behind)

    def rebuild(self, names: Iterable[str], *, progress: Progress | None = None) -> tuple[Bookmark, ...]:
        """Make the tables of these folds again beside the live ones, then switch; how far each of them came.

        Readers and catch-ups of the live ones go on undisturbed. A fold that parks is not switched: its bookmark says
        where and why. Another rebuild of the same folds is waited for. Raises KeyError for a fold that is not known.
        """
        chosen = [self._folds[name] for name in sorted(names)]
        found, memories = rebuild_folds(self._engine, self._store, chosen, _MOST_KEYS, progress)
        self._memory.update(memories)
        return found

    def _batch(self, connection: Connection, behind: Sequence[Build], target: int, *, singly: bool) -> tuple[int, int]:
        """Fold on the builds that are furthest behind: up to which position, and how many they are."""
        builds = lock_live(connection, behind, target)
        if not builds:
            return 0, 0
        start = min(build.position for build in builds)
        finish = min([target, start + _BATCH, *(build.position for build in builds if build.position > start)])
        parts = [self._part(build) for build in builds if build.position == start]
        rows = read_page(connection, self._store, columns(part.fold for part in parts), start, finish)
        log = Log(connection, self._store, settle=int)
        withdrawn = self._withdrawn_at(connection, parts, start)
        after = fold_page(log, parts, rows, withdrawn)
        put(connection, parts, finish, singly=singly)
        for part, memory in zip(
            (p for p in parts if not p.reason), trim_caches(parts, finish, _MOST_KEYS), strict=True
        ):
            self._memory[part.fold.name] = part.build.build, memory
        if any(part.fold.rests_on is not None for part in parts):
            self._withdrawn = (finish, after)
        return finish, len(parts)

    def _part(self, build: Build) -> BuildPage:
        known, memory = self._memory.pop(build.projection, (0, None))
        if memory is None or known != build.build or memory.position != build.position:
            memory = StateCache(build.position, is_whole=build.position == 0)
        return BuildPage(build, self._folds[build.projection], memory)

    def _withdrawn_at(self, connection: Connection, parts: Sequence[BuildPage], start: int) -> frozenset[str]:
        """The runs withdrawn up to a position; nothing where no part is reached by it."""
        if all(part.fold.rests_on is None for part in parts):
            return frozenset()
        known, runs = self._withdrawn if self._withdrawn[0] <= start else (0, frozenset())
        if known < start:
            runs = runs.union(*(found for _, found in read_withdrawals(connection, self._store, known, start)))
        return runs
