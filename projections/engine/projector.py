"""The projector: reads the log once for all folds, and writes rows and positions in one transaction.

A build's row is its lock: a batch locks it, folds from its position, and updates the position. A second projector waits
for that lock, then sees that the position differs from its cache's, and discards the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from eventlog.database import read_connection
from eventlog.postgres import PostgresStore
from eventlog.store import EventStore, Position

from .. import ALL
from .builds import Bookmark, Build, live_builds, lock_live
from .folding import BuildPage, Log, fold_page, is_lost, put, trim_caches
from .kept_states import KeptStates
from .projection import NOTHING, AnyFold, LeftOut
from .reader import PAGE, columns, read_markers, read_page
from .rebuild import rebuild_folds
from .table import StateCache

_BATCH = PAGE
_MOST_KEYS = 10_000
"""States of a fold that are kept while many events are folded; twice as many are trimmed to this."""

_LIVE_KEYS = 1_000
"""The same at the head, so that a process that follows a log for long takes no more memory the longer it is."""

Progress = Callable[[int], object]
"""Called with the position reached so far."""


class Reached(NamedTuple):
    """The position that was folded up to; `may_be_parked` is False if no fold is parked for certain."""

    position: Position
    may_be_parked: bool


class _Step(NamedTuple):
    """One batch: the target, the position reached (0: nothing was folded), and whether all folds are at the target."""

    target: Position
    reached: int
    is_there: bool
    may_be_parked: bool


class Projector:
    """Keeps fold tables up to date with the log, and caches recent states. Thread-safe."""

    def __init__(self, engine: Engine, folds: Sequence[AnyFold] = ALL, store: EventStore | None = None) -> None:
        self._engine = engine
        self._store = PostgresStore(engine) if store is None else store
        self._folds = {fold.name: fold for fold in folds}
        self._memory: dict[str, tuple[int, StateCache]] = {}
        self._left_out: tuple[int, LeftOut] = (0, NOTHING)
        self.kept_states: KeptStates = {}

    def catch_up(self, upto: Position | None = None, *, progress: Progress | None = None) -> Position:
        """Fold all events up to `upto` (default: the head), and return that position. Parked folds are skipped."""
        return self.reach(upto, progress=progress).position

    def reach(self, upto: Position | None = None, *, progress: Progress | None = None) -> Reached:
        """As `catch_up`, and whether any fold may be parked now."""
        target, may_be_parked = upto, False
        while True:
            try:
                step = self._once(target, singly=False)
            except DBAPIError as error:
                if is_lost(error):
                    raise
                step = self._once(target, singly=True)
            target, may_be_parked = step.target, may_be_parked or step.may_be_parked
            if step.reached and progress is not None:
                progress(step.reached)
            if step.is_there:
                return Reached(step.target, may_be_parked)

    def _once(self, upto: Position | None, *, singly: bool) -> _Step:
        """Fold one batch."""
        with read_connection(self._engine) as connection:
            builds, head = live_builds(connection, list(self._folds.values()))
        # if the table is empty, the whole log may have been archived
        target = upto if upto is not None else head or self._store.head()
        behind = [build for build in builds if not build.is_parked and build.position < target]
        if not behind:
            return _Step(target, 0, is_there=True, may_be_parked=any(build.is_parked for build in builds))
        with self._engine.begin() as connection:
            reached, folded = self._batch(connection, behind, target, singly=singly)
        return _Step(target, reached, is_there=reached == target and folded == len(behind), may_be_parked=True)

    def rebuild(self, names: Iterable[str], *, progress: Progress | None = None) -> tuple[Bookmark, ...]:
        """Rebuild the tables of these folds beside the live ones, then switch over; return the folds' bookmarks.

        Readers and catch-ups of the live tables continue undisturbed. A fold that is parked is not switched; its
        bookmark says where and why. Waits for other rebuilds of the same folds. Raises KeyError for an unknown fold.
        """
        chosen = [self._folds[name] for name in sorted(names)]
        found, memories = rebuild_folds(self._engine, self._store, chosen, _MOST_KEYS, progress)
        self._memory.update(memories)
        return found

    def _batch(self, connection: Connection, behind: Sequence[Build], target: int, *, singly: bool) -> tuple[int, int]:
        """Fold the builds that are furthest behind; return the position reached and the number of builds."""
        builds = lock_live(connection, behind, target)
        if not builds:
            return 0, 0
        start = min(build.position for build in builds)
        finish = min([target, start + _BATCH, *(build.position for build in builds if build.position > start)])
        parts = [self._part(build) for build in builds if build.position == start]
        rows = read_page(connection, self._store, columns(part.fold for part in parts), start, finish)
        log = Log(connection, self._store, settle=int)
        after = fold_page(log, parts, rows, self._left_out_at(connection, start))
        put(connection, parts, finish, singly=singly)
        kept = trim_caches(parts, finish, _MOST_KEYS if finish < target else _LIVE_KEYS)
        for part, memory in zip((p for p in parts if not p.reason), kept, strict=True):
            self._memory[part.fold.name] = part.build.build, memory
        self._left_out = (finish, after)
        return finish, len(parts)

    def _part(self, build: Build) -> BuildPage:
        known, memory = self._memory.pop(build.projection, (0, None))
        if memory is None or known != build.build or memory.position != build.position:
            memory = StateCache(build.position, is_whole=build.position == 0)
        return BuildPage(build, self._folds[build.projection], memory)

    def _left_out_at(self, connection: Connection, start: int) -> LeftOut:
        """The withdrawn runs and disowned positions that folds leave out from a position on."""
        known, found = self._left_out if self._left_out[0] <= start else (0, NOTHING)
        return found.add(*read_markers(connection, self._store, known, start)) if known < start else found
