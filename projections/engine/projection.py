"""A projection is a pure fold over the event fields that it declares to read.

A fold uses only its state and one event: no clock, no randomness, no environment variable, no other projection, no
tunable constant. States are frozen msgspec structs without floats.

The state at position P is the fold of the events up to P, without those that rest on runs withdrawn at or before P and
without those disowned at or before P. A withdrawal disowned at or before P withdraws nothing; a disowning is final.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from eventlog.chain import canonical
from eventlog.store import Position, Recorded

from .decoders import convert, decoder_of
from .rows import EventRow, at_path, row_of
from .stored_states import restore_state, stored_class

__all__ = ["Change", "EventRow", "Fold", "FoldState", "at_path", "replay", "row_of"]

S = TypeVar("S", bound=msgspec.Struct)

WITHDRAWAL = "RunsWithdrawn"
DISOWNING = "EventsDisowned"


class LeftOut(NamedTuple):
    """Withdrawn runs and disowned positions, which folds leave out from some position on.

    `withdrawals` holds the position and the runs of each withdrawal. One that was disowned withdraws nothing.
    """

    runs: frozenset[str] = frozenset()
    positions: frozenset[int] = frozenset()
    withdrawals: tuple[tuple[int, frozenset[str]], ...] = ()

    def add(self, *markers: EventRow) -> LeftOut:
        """The same with these withdrawals and disownings besides."""
        named = tuple((row.position, frozenset(row.records("runs"))) for row in markers if row.type == WITHDRAWAL)
        newly = frozenset(at for row in markers if row.type == DISOWNING for at in row.records("positions"))
        disowned, withdrawals = self.positions | newly, self.withdrawals + named
        brings_back = bool(newly) and any(at in newly for at, _ in self.withdrawals)
        known, further = (frozenset[str](), withdrawals) if brings_back else (self.runs, named)
        return LeftOut(known.union(*(own for at, own in further if at not in disowned)), disowned, withdrawals)

    def changes_to(self, after: LeftOut) -> LeftOut:
        """The runs withdrawn or brought back, and the positions disowned, between this and `after`."""
        return LeftOut(self.runs ^ after.runs, after.positions - self.positions)

    @property
    def brought_back(self) -> frozenset[str]:
        """The runs of withdrawals that were disowned. Some of their events came while they were left out."""
        return frozenset[str]().union(*(own for at, own in self.withdrawals if at in self.positions))


NOTHING = LeftOut()


class FoldState(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all fold states."""


@dataclass(frozen=True)
class Fold(Generic[S]):
    """A projection that folds event by event.

    `reads` maps event types to the dotted paths of the fields read. `key` gives the key of the row to which an event
    belongs, or None to skip it. A state equal to `initial` means that the key has no row. `stream_of` is set if each
    key is one stream: then only the latest state is stored, and as-of reads fold that stream. `rests_on` maps event
    types to the paths of the runs on which such an event rests (a text or a list of texts, also in `reads`); without
    it, withdrawals do not affect the fold. Disownings affect every fold. `is_kept` is set if all states are read often
    and are few enough for a process to keep them.
    """

    name: str
    version: int
    reads: Mapping[str, tuple[str, ...]]
    initial: S
    key: Callable[[EventRow], str | None]
    fold: Callable[[S, EventRow], S]
    stream_of: Callable[[str], str] | None = None
    rests_on: Mapping[str, tuple[str, ...]] | None = None
    is_kept: bool = False

    def __post_init__(self) -> None:
        for kind, paths in (self.rests_on or {}).items():
            if not set(paths) <= set(self.reads.get(kind, ())):
                raise ValueError(f"{self.name} rests on {kind} by {', '.join(paths)}; expected fields that it reads")

    @property
    def markers(self) -> Mapping[str, tuple[str, ...]]:
        """The event types that take other events out of the fold, with the field that names what is left out."""
        withdrawal = {} if self.rests_on is None else {WITHDRAWAL: ("runs",)}
        return {DISOWNING: ("positions",), **withdrawal}

    @property
    def types(self) -> tuple[str, ...]:
        """Every event type that affects its states."""
        return (*self.reads, *(kind for kind in self.markers if kind not in self.reads))

    def decode(self, state: object) -> S:
        """A state from its JSON form."""
        found: S = convert(state, type(self.initial))
        return found

    def parse(self, state: str) -> S:
        """A state from the JSON text that a table keeps."""
        kind: type[S] = type(self.initial)
        stored: object = stored_class(kind)
        found: S = decoder_of(stored).decode(state)
        return restore_state(kind, found)

    def parse_changes(self, lines: str) -> list[Change[S]]:
        """Changes from lines of JSON, `[key, since, state]` each, the states as a table keeps them."""
        kind = type(self.initial)
        found: list[Change[S]] = decoder_of(Change[stored_class(kind)]).decode_lines(lines)  # type: ignore[misc]
        return [
            Change(each.key, each.since, None if each.state is None else restore_state(kind, each.state))
            for each in found
        ]


AnyFold = Fold[Any]


class Change(msgspec.Struct, Generic[S], frozen=True, array_like=True, gc=False):
    """The state of a key from a position on; None if the key has no state any more."""

    key: str
    since: Position
    state: S | None


def rows_with_keys(fold: AnyFold, rows: Iterable[EventRow]) -> list[tuple[str, EventRow]]:
    """The rows that the fold reads, each with its key; rows without a key are skipped.

    In a fold keyed by stream, an event that names a key but is in another stream is skipped too.
    """
    reads, key_of, stream_of = fold.reads, fold.key, fold.stream_of
    found = []
    last = stream = ""
    for row in rows:
        if row.type not in reads or (key := key_of(row)) is None:
            continue
        if stream_of is not None and (key != last or row.stream != stream):
            if stream_of(key) != row.stream:
                continue
            last, stream = key, row.stream
        found.append((key, row))
    return found


def advance(fold: Fold[S], states: dict[str, S], rows: Iterable[tuple[str, EventRow]]) -> Iterator[Change[S]]:
    """Fold keyed rows in order into `states`, in place, and yield each change of a state."""
    step, initial = fold.fold, fold.initial
    for key, row in rows:
        before = states.get(key)
        after = step(initial if before is None else before, row)
        if after != initial:
            states[key] = after
            yield Change(key, row.position, after)
        elif before is not None:
            del states[key]
            yield Change(key, row.position, None)


def apply(fold: Fold[S], states: dict[str, S], rows: Iterable[EventRow]) -> Iterator[Change[S]]:
    """Fold the rows that the fold reads in order into `states`, in place, ignoring withdrawals and disownings."""
    return advance(fold, states, rows_with_keys(fold, rows))


def runs_of(fold: AnyFold, row: EventRow) -> tuple[str, ...]:
    """The runs on which an event rests, for this fold."""
    found: list[str] = []
    for path in (fold.rests_on or {}).get(row.type, ()):
        value = row.field(path)
        found += [value] if isinstance(value, str) else [item for item in value or () if isinstance(item, str)]
    return tuple(found)


def rests(fold: AnyFold, row: EventRow, left_out: LeftOut) -> bool:
    """True if an event was disowned or rests on a withdrawn run, for this fold."""
    return row.position in left_out.positions or any(run in left_out.runs for run in runs_of(fold, row))


def rows_in_force(
    fold: AnyFold, rows: Iterable[tuple[str, EventRow]], left_out: LeftOut
) -> Iterable[tuple[str, EventRow]]:
    """The keyed rows that are not left out, taken from `rows` one by one."""
    if not left_out.positions and (fold.rests_on is None or not left_out.runs):
        return rows
    return ((key, row) for key, row in rows if not rests(fold, row, left_out))


def fold_rows(fold: Fold[S], rows: Iterable[tuple[str, EventRow]]) -> dict[str, S]:
    """The states after folding keyed rows from the initial state."""
    states: dict[str, S] = {}
    for _ in advance(fold, states, rows):
        pass
    return states


def apply_withdrawal(
    states: dict[str, S], touched: Iterable[str], fresh: Mapping[str, S], position: Position
) -> Iterator[Change[S]]:
    """Replace the states of `touched` keys by those in `fresh`, in place, and yield a change for each that differs."""
    for key in sorted(touched, key=str.encode):
        after = fresh.get(key)
        if after == states.get(key):
            continue
        if after is None:
            del states[key]
        else:
            states[key] = after
        yield Change(key, position, after)


def replay(fold: Fold[S], events: Iterable[Recorded], *, disowns: bool = True) -> tuple[Change[S], ...]:
    """All changes of a fold over a log prefix: the contents of its table, computed without a database.

    `disowns` False says that nothing in the prefix was disowned: then the past of a fold that no withdrawal affects
    need not be held in memory.
    """
    changes = tuple(replay_changes(fold, _rows(fold, events), disowns=disowns))
    return changes if fold.stream_of is None else tuple(latest(changes).values())


def _rows(fold: AnyFold, events: Iterable[Recorded]) -> Iterator[EventRow]:
    reads = {**fold.markers, **fold.reads}
    return (row_of(event, reads[event.event.type]) for event in events if event.event.type in reads)


def replay_changes(fold: Fold[S], rows: Iterable[EventRow], *, disowns: bool = True) -> Iterator[Change[S]]:
    """All changes over rows in order, including withdrawals and disownings if they affect the fold.

    At each of these, the keys with events that it takes out or brings back are folded again.
    """
    if fold.rests_on is None and not disowns:
        yield from apply(fold, {}, rows)
        return
    states: dict[str, S] = {}
    past: dict[str, list[tuple[str, EventRow]]] = {}
    left_out = NOTHING
    for row in rows:
        if row.type in fold.markers:
            before, left_out = left_out, left_out.add(row)
            newly = before.changes_to(left_out)
            touched = [key for key, own in past.items() if any(rests(fold, each, newly) for _, each in own)]
            again = (item for key in touched for item in past[key])
            fresh = fold_rows(fold, rows_in_force(fold, again, left_out))
            yield from apply_withdrawal(states, touched, fresh, row.position)
            continue
        for item in rows_with_keys(fold, (row,)):
            past.setdefault(item[0], []).append(item)
            yield from advance(fold, states, rows_in_force(fold, (item,), left_out))


def latest(changes: Iterable[Change[S]]) -> dict[str, Change[S]]:
    """The newest change of each key."""
    return {change.key: change for change in changes}


def newest_states(changes: Iterable[Change[S]]) -> dict[str, S]:
    """The newest state of each key that has one, in order of key bytes."""
    newest = latest(changes)
    found = {key: newest[key].state for key in sorted(newest, key=str.encode)}
    return {key: state for key, state in found.items() if state is not None}


def state_json(state: msgspec.Struct | None) -> object:
    """A state in its JSON form."""
    return msgspec.to_builtins(state)


def digest_of(rows: Iterable[tuple[str, int, object]]) -> str:
    """The digest of a projection over (key, since, state), sorted by key bytes, then since."""
    total = hashlib.sha256()
    for key, since, state in sorted(rows, key=lambda row: (row[0].encode(), row[1])):
        total.update(hashlib.sha256(canonical([key, since, state])).digest())
    return total.hexdigest()


def digest_changes(changes: Iterable[Change[S]]) -> str:
    """The digest of changes as `replay` returns them."""
    return digest_of((change.key, change.since, state_json(change.state)) for change in changes)
