"""What a projection is: a pure fold over the rows it declares to read.

A fold reads its state and one event: no clock, no random number, no environment, no other projection, no tunable
constant. States are frozen msgspec structs without floats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from eventlog.chain import canonical
from eventlog.store import Position, Recorded

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The root of all fold states."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a fold sees of an event: its envelope and the fields that were declared, by dotted path."""

    position: Position
    stream: str
    at: datetime
    actor: str
    type: str
    fields: Mapping[str, Any]

    def text(self, path: str) -> str:
        """A text field. Raises TypeError where it is something else."""
        return _typed(self, path, str)

    def number(self, path: str) -> int:
        """An integer field."""
        return _typed(self, path, int)

    def flag(self, path: str) -> bool:
        """A truth value."""
        return _typed(self, path, bool)

    def maybe_text(self, path: str) -> str | None:
        """A text field that may be absent."""
        return None if self.fields[path] is None else self.text(path)

    def maybe_number(self, path: str) -> int | None:
        """An integer field that may be unknown."""
        return None if self.fields[path] is None else self.number(path)

    def record(self, path: str) -> dict[str, Any]:
        """A nested object."""
        return _typed(self, path, dict)

    def records(self, path: str) -> list[Any]:
        """A nested list."""
        return _typed(self, path, list)


def _typed(row: Row, path: str, kind: type[T]) -> T:
    value = row.fields[path]
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise TypeError(f"{row.type}.{path} at {row.position} is {value!r}; expected {kind.__name__}")


@dataclass(frozen=True)
class Fold(Generic[S]):
    """A projection that goes event by event.

    `reads` maps event types to the dotted field paths wanted. `key` names the row an event belongs to, or None.
    `stream_of` is given where a key is one stream: then only its latest state is kept, and as-of folds that stream.
    """

    name: str
    version: int
    reads: Mapping[str, tuple[str, ...]]
    initial: S
    key: Callable[[Row], str | None]
    fold: Callable[[S, Row], S]
    stream_of: Callable[[str], str] | None = None

    @property
    def paths(self) -> frozenset[str]:
        """Every field path the fold wants of any type."""
        return frozenset(path for paths in self.reads.values() for path in paths)

    def decode(self, state: object) -> S:
        """A state from its JSON form."""
        return msgspec.convert(state, type(self.initial))


AnyFold = Fold[Any]


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """The state of a key from a position on."""

    key: str
    since: Position
    state: S


def at_path(payload: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, or None."""
    value: Any = payload
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def row_of(recorded: Recorded, paths: Iterable[str]) -> Row:
    """A whole event as a fold's row; the shell's SQL gives the same."""
    payload = recorded.event.model_dump(mode="json")
    fields = {path: at_path(payload, path) for path in paths}
    return Row(recorded.position, recorded.stream, recorded.at, recorded.actor, recorded.event.type, fields)


def apply(fold: Fold[S], states: dict[str, S], rows: Iterable[Row]) -> Iterator[Change[S]]:
    """Fold rows in order into `states` (which it updates), one change for each row that has a key."""
    for row in rows:
        if row.type not in fold.reads:
            continue
        key = key_of(fold, row)
        if key is None:
            continue
        states[key] = fold.fold(states.get(key, fold.initial), row)
        yield Change(key, row.position, states[key])


def key_of(fold: AnyFold, row: Row) -> str | None:
    """The key an event belongs to; none where a fold keyed by stream meets it in another stream than the key's."""
    key = fold.key(row)
    is_elsewhere = key is not None and fold.stream_of is not None and fold.stream_of(key) != row.stream
    return None if is_elsewhere else key


def replay(fold: Fold[S], events: Iterable[Recorded]) -> tuple[Change[S], ...]:
    """All changes of a fold over a log prefix: what its table holds, rebuilt without a database."""
    rows = (row_of(event, fold.reads.get(event.event.type, ())) for event in events)
    changes = tuple(apply(fold, {}, rows))
    return changes if fold.stream_of is None else tuple(latest(changes).values())


def latest(changes: Iterable[Change[S]]) -> dict[str, Change[S]]:
    """The newest change of each key."""
    return {change.key: change for change in changes}


def plain(state: msgspec.Struct) -> object:
    """A state in its JSON form."""
    return msgspec.to_builtins(state)


def digest_of(rows: Iterable[tuple[str, int, object]]) -> str:
    """The digest of a projection: over (key, since, state) by key bytes, then since; never over stored text."""
    total = hashlib.sha256()
    for key, since, state in sorted(rows, key=lambda row: (row[0].encode(), row[1])):
        total.update(hashlib.sha256(canonical([key, since, state])).digest())
    return total.hexdigest()


def digest_changes(changes: Iterable[Change[S]]) -> str:
    """The digest of what `replay` gives."""
    return digest_of((change.key, change.since, plain(change.state)) for change in changes)
