"""The event store contract: positions, recorded events, append requests and their outcomes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NewType, Protocol

if TYPE_CHECKING:
    from .events import AnyEvent

Position = NewType("Position", int)
"""Position of an event: 1, 2, 3, ... without gaps, in commit order. The visible log is always a prefix."""

START = Position(0)
"""The position before the first event."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored row: payload as JSON text, digest and chain as bytes."""

    position: Position
    stream: str
    version: int
    at: datetime
    actor: str
    cause: Position | None
    type: str
    schema_version: int
    payload: str
    digest: bytes
    chain: bytes


@dataclass(frozen=True, slots=True)
class Recorded:
    """A decoded event with its position, which identifies it."""

    position: Position
    stream: str
    version: int
    at: datetime
    actor: str
    cause: Position | None
    digest: bytes
    event: AnyEvent


def fresh_key() -> str:
    """A random append key for a caller without a natural one. Make it before the first try, so a retry can reuse it."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Append:
    """A request to append events to one stream, atomically.

    `expect` is the stream's version before them (0: the stream is new, None: any). `key` makes the append idempotent.
    """

    stream: str
    events: tuple[AnyEvent, ...]
    actor: str
    expect: int | None = None
    key: str = field(default_factory=fresh_key)
    cause: Position | None = None

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError(f"an append to {self.stream!r} carries no event; expected at least one")
        if not self.stream or not self.key or not self.actor:
            raise ValueError("an append needs a stream, a key and an actor; one of them is empty")


@dataclass(frozen=True, slots=True)
class Committed:
    """The events were written at positions `first` to `last`; the stream is now at `version`."""

    first: Position
    last: Position
    version: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """The key was already used with the same content, at positions `first` to `last`; nothing was written."""

    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Conflict:
    """The stream is at `actual`, not at the `expected` version; nothing was written."""

    stream: str
    expected: int
    actual: int


@dataclass(frozen=True, slots=True)
class KeyReused:
    """The key was already used with other content, at positions `first` to `last`; nothing was written."""

    key: str
    first: Position
    last: Position


Acceptance = Committed | Repeated
Refusal = Conflict | KeyReused
Outcome = Acceptance | Refusal


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing of a group was written, because the log refused some of its requests.

    `refusals` has one entry for each request of the group; None: the request itself was acceptable. Versions and
    positions in it are those after the earlier requests of the group.
    """

    refusals: tuple[Refusal | None, ...]


Until = Callable[[Position], bool]
"""Called with the last delivered position whenever a subscriber has caught up; True ends the subscription."""


class EventStore(Protocol):
    """An append-only log with one total order."""

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        """Judge the requests in order, each with its own outcome. On return, they are durably committed."""
        ...

    def append_together(self, requests: Sequence[Append]) -> Sequence[Acceptance] | Rejected:
        """Append all requests, or none if the log refuses one of them. A repeated request is not refused."""
        ...

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Iterator[Recorded]:
        """Events at positions in (after, upto], in order, optionally of one stream, of some types, by one actor.

        Events by other actors are looked at, but not decoded.
        """
        ...

    def disowned_positions(self, upto: Position | None = None) -> frozenset[Position]:
        """The positions that were disowned at or before `upto` (None: the head)."""
        ...

    def subscribe(self, *, after: Position, until: Until) -> Iterator[Sequence[Recorded]]:
        """Batches of past and future events in order, each event exactly once, until `until` returns True."""
        ...

    def head(self) -> Position:
        """The last committed position."""
        ...

    def read_stored(
        self, *, after: Position = START, upto: Position | None = None, types: Sequence[str] | None = None
    ) -> Iterator[Stored]:
        """Stored rows in order, optionally of some types, for verification, transfer and folding."""
        ...
