"""An event store in a list: the reference implementation of the contract, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from .append_rule import Keyed, Known, judge_appends, judge_group, place_rows
from .chain import GENESIS, link
from .codec import EncodedAppend, decode, encode_append
from .events import EventsDisowned
from .store import START, Acceptance, Append, Committed, Outcome, Position, Recorded, Rejected, Stored, Until

_BATCH = 500
_PAUSE_S = 0.05


class MemoryStore:
    """An EventStore in one process's memory. `now` is the clock that stamps events."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._rows: list[Stored] = []
        self._versions: dict[str, int] = {}
        self._keys: dict[str, Keyed] = {}
        self._changed = threading.Condition()

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        """See EventStore.append."""
        encoded = [encode_append(request) for request in requests]
        with self._changed:
            outcomes = judge_appends(encoded, Known(self.head(), self._keys, self._versions))
            self._write(encoded, outcomes)
        return outcomes

    def append_together(self, requests: Sequence[Append]) -> Sequence[Acceptance] | Rejected:
        """See EventStore.append_together."""
        encoded = [encode_append(request) for request in requests]
        with self._changed:
            result = judge_group(judge_appends(encoded, Known(self.head(), self._keys, self._versions)))
            if not isinstance(result, Rejected):
                self._write(encoded, result)
        return result

    def _write(self, requests: Sequence[EncodedAppend], outcomes: Sequence[Outcome]) -> None:
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Committed):
                self._write_request(request, outcome)
        self._changed.notify_all()

    def _write_request(self, request: EncodedAppend, outcome: Committed) -> None:
        at = max(self._now(), self._rows[-1].at) if self._rows else self._now()
        previous = self._rows[-1].chain if self._rows else GENESIS
        for row in place_rows(request, outcome, at):
            previous = link(previous, row)
            self._rows.append(replace(row, chain=previous))
        self._versions[request.stream] = outcome.version
        self._keys[request.key] = Keyed(request.content, outcome.first, outcome.last)

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> Iterator[Recorded]:
        """See EventStore.read."""
        for row in self.read_stored(after=after, upto=upto, types=types):
            if stream in {None, row.stream} and actor in {None, row.actor}:
                yield decode(row)

    def disowned_positions(self, upto: Position | None = None) -> frozenset[Position]:
        """See EventStore.disowned_positions."""
        events = (each.event for each in self.read(upto=upto, types=("EventsDisowned",)))
        return frozenset(
            Position(at) for event in events if isinstance(event, EventsDisowned) for at in event.positions
        )

    def subscribe(self, *, after: Position, until: Until) -> Iterator[Sequence[Recorded]]:
        """See EventStore.subscribe."""
        last = after
        while True:
            batch = list(islice(self.read(after=last), _BATCH))
            if batch:
                last = batch[-1].position
                yield batch
                continue
            if until(last):
                return
            with self._changed:
                self._changed.wait_for(lambda seen=last: self.head() > seen, timeout=_PAUSE_S)  # type: ignore[misc]

    def head(self) -> Position:
        """See EventStore.head."""
        return Position(len(self._rows))

    def read_stored(
        self, *, after: Position = START, upto: Position | None = None, types: Sequence[str] | None = None
    ) -> Iterator[Stored]:
        """See EventStore.read_stored."""
        wanted = None if types is None else frozenset(types)
        last = self.head() if upto is None else min(upto, self.head())
        for index in range(after, last):
            if wanted is None or self._rows[index].type in wanted:
                yield self._rows[index]
