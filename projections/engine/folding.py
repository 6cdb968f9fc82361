"""Fold one page of the log into table rows. Each fold is isolated: if one raises, only that one is parked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import length_hint
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from eventlog.database import first_line
from eventlog.errors import FlywheelError
from eventlog.store import EventStore

from .builds import Build, move, park
from .projection import (
    DISOWNING,
    WITHDRAWAL,
    AnyFold,
    Change,
    LeftOut,
    advance,
    apply_withdrawal,
    rows_in_force,
    rows_with_keys,
)
from .rows import EventRow
from .table import Recalled, StateCache, WrittenRow, recall, replace_rows, rows_to_keep
from .withdrawal import fresh_states

Keyed = list[tuple[str, EventRow]]

_TOGETHER = 50
"""Maximum number of withdrawals and disownings handled by one read of the log."""


@dataclass(slots=True)
class BuildPage:
    """One build's part of a page. If folding failed, `reason` says why and nothing of the page is written for it."""

    build: Build
    fold: AnyFold
    memory: StateCache
    rows: list[EventRow] = field(default_factory=list)
    keyed: Keyed = field(default_factory=list)
    kept: list[WrittenRow] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """Source of states and events that are not cached. `settle` waits until all earlier pages are written."""

    connection: Connection
    store: EventStore
    settle: Callable[[], object]


def fold_page(log: Log, parts: Sequence[BuildPage], rows: Iterable[EventRow], left_out: LeftOut) -> LeftOut:
    """Fold a page into its parts, given what is left out before it, and return what is left out after it."""
    markers = _deal(parts, rows)
    for part in parts:
        _take_keys(part, left_out)
    wanted = {part.build.build: part.memory.unknown(part.fold, part.keyed) for part in parts}
    recalled = recall(log.connection, wanted)
    for part in parts:
        _take_states(part, recalled[part.build.build])
        if not part.reason:
            _fold(log, part, left_out)
    return left_out.add(*markers)


def _deal(parts: Sequence[BuildPage], rows: Iterable[EventRow]) -> list[EventRow]:
    """Distribute the rows to the parts that read their types, and return the withdrawals and disownings among them."""
    markers: list[EventRow] = []
    readers: dict[str, list[Callable[[EventRow], None]]] = {kind: [markers.append] for kind in (WITHDRAWAL, DISOWNING)}
    for part in parts:
        for kind in part.fold.types:
            readers.setdefault(kind, []).append(part.rows.append)
    for row in rows:
        for give in readers.get(row.type, ()):
            give(row)
    return markers


def _attempt(part: BuildPage, rows: Sequence[Any], work: Callable[[Iterator[Any]], object]) -> None:
    """Run a fold's work over rows that it consumes one by one; if it raises, record the reason and the row."""
    if part.reason:
        return
    taken = iter(rows)
    try:
        work(taken)
    except DBAPIError:
        raise  # an error of the database, not of an event: the whole page is rolled back and can be retried
    except Exception as error:  # noqa: BLE001 one bad event parks one projection, not the others
        said = str(error) if isinstance(error, FlywheelError) else f"{type(error).__name__}: {error}"
        part.reason = said + _where(rows, taken)


def _where(rows: Sequence[Any], taken: Iterator[Any]) -> str:
    """The row consumed last, as text; empty if no row was consumed."""
    last = rows[: len(rows) - length_hint(taken)][-1:]
    if not last:
        return ""
    row = last[0] if isinstance(last[0], EventRow) else last[0][1]
    return f" (at position {row.position}, {row.type})"


def _take_keys(part: BuildPage, left_out: LeftOut) -> None:
    def work(rows: Iterator[EventRow]) -> None:
        part.keyed = rows_in_force(part.fold, rows_with_keys(part.fold, rows), left_out)

    _attempt(part, part.rows, work)


def _take_states(part: BuildPage, found: Sequence[Recalled]) -> None:
    _attempt(part, (), lambda _: part.memory.take(part.fold, found))


def _fold(log: Log, part: BuildPage, left_out: LeftOut) -> None:
    changes: list[Change[Any]] = []
    gone, rest = left_out, part.keyed

    def fold(rows: Iterator[tuple[str, EventRow]]) -> None:
        changes.extend(advance(part.fold, part.memory.states, rows))

    def take_out(rows: Iterator[EventRow]) -> None:
        changes.extend(_taken_out(log, part, list(rows), gone, changes))

    for markers in _neighbours(part):
        before = [item for item in rest if item[1].position < markers[0].position]
        _attempt(part, before, fold)
        _attempt(part, markers, take_out)
        gone = gone.add(*markers)
        rest = rows_in_force(part.fold, rest[len(before) :], gone)
    _attempt(part, rest, fold)
    _attempt(part, (), lambda _: _keep(part, changes))


def _neighbours(part: BuildPage) -> Iterator[list[EventRow]]:
    """The withdrawals and disownings that affect a part, batched while no event of the fold lies between them."""
    events = [row.position for _, row in part.keyed]
    kinds = part.fold.markers
    markers = (row for row in part.rows if row.type in kinds)
    for _, found in groupby(markers, key=lambda marker: bisect_left(events, marker.position)):
        while some := list(islice(found, _TOGETHER)):
            yield some


def _taken_out(
    log: Log, part: BuildPage, markers: Sequence[EventRow], left_out: LeftOut, changes: Sequence[Change[Any]]
) -> Iterator[Change[Any]]:
    """Changes caused by withdrawals and disownings: the affected keys are folded again from the log."""
    log.settle()
    memory, build = part.memory, part.build.build
    pending = {key: row.position for key, row in reversed(part.keyed)}
    gone = [left_out]
    for marker in markers:
        gone.append(gone[-1].add(marker))
    found = fresh_states(
        log.connection, log.store, part.fold, build, list(zip(markers, gone[1:], strict=True)), pending
    )
    known = memory.states.keys() | memory.began.keys() | {change.key for change in changes}
    if not memory.is_whole:
        touched = set().union(*(keys for _, keys in found))
        memory.take(part.fold, recall(log.connection, {build: sorted(touched - known)})[build])
    for marker, (fresh, keys) in zip(markers, found, strict=True):
        yield from apply_withdrawal(memory.states, keys, fresh, marker.position)


def _keep(part: BuildPage, changes: Sequence[Change[Any]]) -> None:
    part.kept, part.replaced = rows_to_keep(part.build.build, part.fold, part.memory, changes)


def put(connection: Connection, parts: Sequence[BuildPage], finish: int, *, singly: bool = False) -> None:
    """Write the rows and positions of parts in the caller's transaction.

    If the database rejects a row, the transaction fails; with `singly`, only the part with that row is parked.
    """
    if singly:
        for part in parts:
            _put_alone(connection, part)
    else:
        _put(connection, [part for part in parts if not part.reason])
    move(connection, [part.build.build for part in parts if not part.reason], finish)
    for part in parts:
        if part.reason:
            park(connection, part.build.build, part.reason)


def _put(connection: Connection, parts: Sequence[BuildPage]) -> None:
    rows = [row for part in parts for row in part.kept]
    replace_rows(connection, rows, [(part.build.build, key) for part in parts for key in part.replaced])


def _put_alone(connection: Connection, part: BuildPage) -> None:
    if part.reason:
        return
    try:
        with connection.begin_nested():
            _put(connection, [part])
    except DBAPIError as error:
        if is_lost(error):
            raise
        part.reason = f"its rows are not taken: {first_line(error)}"


def is_lost(error: DBAPIError) -> bool:
    """True if the error is of the database connection, so that a retry may succeed."""
    return isinstance(error, OperationalError | InterfaceError)


def trim_caches(parts: Iterable[BuildPage], finish: int, most: int) -> Iterator[StateCache]:
    """The caches of parts that are not parked, at the end of a page, trimmed to the latest `most` states."""
    for part in parts:
        if not part.reason:
            part.memory.position = finish
            if len(part.memory.states) > 2 * most:
                part.memory.forget(most, {key for key, _ in part.keyed})
            yield part.memory
