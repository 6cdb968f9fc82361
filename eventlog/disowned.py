"""Reads of the log without disowned events, for decisions that read events and not the state of a fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .store import START, EventStore, Position, Recorded


def read_in_force(
    store: EventStore,
    *,
    after: Position = START,
    upto: Position | None = None,
    stream: str | None = None,
    types: Sequence[str] | None = None,
    actor: str | None = None,
) -> Iterator[Recorded]:
    """Events as `EventStore.read` gives them, without those disowned at or before `upto` (None: the head)."""
    gone = store.disowned_positions(upto)
    found = store.read(after=after, upto=upto, stream=stream, types=types, actor=actor)
    return (each for each in found if each.position not in gone)
