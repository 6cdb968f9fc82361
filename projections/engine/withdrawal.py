"""Withdrawals and disownings: the keys of a fold that they affect, and their states without what they leave out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection

from eventlog.store import EventStore

from .projection import AnyFold, Change, Fold, LeftOut, advance, latest, replay_changes, rests, rows_with_keys
from .reader import PAGE, Range, columns, merge_ranges, read_markers, read_page, rows_left_out, rows_of_streams
from .rows import EventRow

S = TypeVar("S", bound=msgspec.Struct)

Fresh = tuple[dict[str, Any], set[str]]
"""The states of the keys that a marker affects, folded without what is left out from it on, and those keys."""


def fresh_states(
    connection: Connection,
    store: EventStore,
    fold: AnyFold,
    build: int,
    markers: Sequence[EventRow],
    stages: Sequence[LeftOut],
    pending: Mapping[str, int],
) -> list[Fresh]:
    """The affected keys and fresh states of each of some markers, in order, with one read of the log.

    `stages` is what is left out before the first and after each. `pending` maps keys with events that are not in
    the table yet to the first position of these.
    """
    upto, back = markers[-1].position, LeftOut(stages[-1].brought_back)
    changes = [before.changes_to(after) for before, after in pairwise(stages)]
    runs = frozenset[str]().union(*(each.runs for each in changes))
    sought = LeftOut(runs, stages[-1].positions - stages[0].positions)
    found = list(rows_with_keys(fold, rows_left_out(connection, store, fold, sought, upto)))
    touched = [
        {key for key, row in found if row.position <= marker.position and rests(fold, row, change)}
        for marker, change in zip(markers, changes, strict=True)
    ]
    fresh: list[dict[str, Any]] = [{} for _ in markers]
    if every := set().union(*touched):
        untold = {**pending}
        if fold.stream_of is None and (unsought := back.runs - runs):
            further = rows_left_out(connection, store, fold, LeftOut(unsought), upto)
            found += [(key, row) for key, row in rows_with_keys(fold, further) if key in every]
        for key, row in found:
            if rests(fold, row, back):  # it may have been left out when it came: then the table tells nothing of it
                untold[key] = min(row.position, untold.get(key, row.position))
        for key, row in _rows_of_keys(connection, store, fold, build, every, upto, untold):
            for marker, left_out, keys, states in zip(markers, stages[1:], touched, fresh, strict=True):
                if key in keys and row.position <= marker.position and not rests(fold, row, left_out):
                    deque(advance(fold, states, ((key, row),)), maxlen=0)
    return list(zip(fresh, touched, strict=True))


def _rows_of_keys(
    connection: Connection,
    store: EventStore,
    fold: AnyFold,
    build: int,
    keys: Set[str],
    upto: int,
    untold: Mapping[str, int],
) -> Iterator[tuple[str, EventRow]]:
    """All rows of these keys, and possibly rows of other keys, up to a position, in order of position."""
    if fold.stream_of is not None:
        streams = [fold.stream_of(key) for key in sorted(keys)]
        yield from rows_with_keys(fold, rows_of_streams(connection, store, fold, streams, upto))
        return
    wanted = columns((fold,))
    for after, end in _ranges(connection, build, keys, upto, untold):
        for start in range(after, end, PAGE):
            yield from rows_with_keys(fold, read_page(connection, store, wanted, start, min(start + PAGE, end)))


def _ranges(connection: Connection, build: int, keys: Set[str], upto: int, untold: Mapping[str, int]) -> list[Range]:
    """The position ranges that hold the events of these keys, except events that left a key without a state.

    A key has a row for each event that left it with a state. After a row without a state, more events may follow.
    `untold` maps keys with further events to the first position of these.
    """
    found = connection.exec_driver_sql(
        """SELECT w.key, a.since AS first, CASE WHEN z.state IS NOT NULL THEN z.since END AS last
        FROM unnest(%s::text[]) AS w (key)
        CROSS JOIN LATERAL (SELECT since FROM fold_rows r WHERE r.build = %s AND r.key = w.key
            ORDER BY since LIMIT 1) a
        CROSS JOIN LATERAL (SELECT since, state FROM fold_rows r WHERE r.build = %s AND r.key = w.key
            ORDER BY since DESC LIMIT 1) z""",
        (sorted(keys), build, build),
    ).all()
    ranges = [
        (min(row.first, untold[row.key]) - 1, upto)
        if row.key in untold
        else (row.first - 1, upto if row.last is None else row.last)
        for row in found
    ]
    ranges += [(untold[key] - 1, upto) for key in keys & untold.keys() - {row.key for row in found}]
    return merge_ranges(ranges)


def states_of_streams(
    connection: Connection, store: EventStore, fold: Fold[S], keys: Iterable[str], upto: int
) -> Iterator[Change[S]]:
    """The newest changes, up to a position, of keys of a fold keyed by stream, folded from their streams."""
    if fold.stream_of is None:
        raise ValueError(f"{fold.name} is not keyed by stream; expected a fold that is")
    streams = [fold.stream_of(key) for key in keys]
    rows = rows_of_streams(connection, store, fold, streams, upto)
    markers = [row for row in read_markers(connection, store, 0, upto) if row.type in fold.markers]
    rows = sorted([*rows, *markers], key=lambda row: row.position)
    yield from latest(replay_changes(fold, rows)).values()
