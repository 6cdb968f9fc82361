"""The store as a list: the contract in its plainest form, for tests and for reading along."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from .chain import GENESIS, link
from .codec import Encoded, content_digest, decode, encode, payload_text
from .store import START, Append, Committed, Conflict, KeyReused, Outcome, Position, Recorded, Repeated, Stored, Until

_BATCH = 500
_PAUSE_S = 0.05


class MemoryStore:
    """An EventStore in one process. `now` is the clock that stamps events."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._rows: list[Stored] = []
        self._versions: dict[str, int] = {}
        self._keys: dict[str, tuple[bytes, Position, Position]] = {}
        self._changed = threading.Condition()

    def append(self, requests: Sequence[Append]) -> Sequence[Outcome]:
        """See EventStore.append."""
        encoded = [(request, encode(request)) for request in requests]
        with self._changed:
            outcomes = [self._judge(request, rows) for request, rows in encoded]
            self._changed.notify_all()
        return outcomes

    def _judge(self, request: Append, rows: tuple[Encoded, ...]) -> Outcome:
        content = content_digest(request.stream, rows)
        if request.key in self._keys:
            known, first, last = self._keys[request.key]
            return Repeated(first, last) if known == content else KeyReused(request.key, first, last)
        version = self._versions.get(request.stream, 0)
        if request.expect is not None and request.expect != version:
            return Conflict(request.stream, request.expect, version)
        first = Position(len(self._rows) + 1)
        for offset, row in enumerate(rows, start=1):
            self._write(request, row, version + offset)
        self._versions[request.stream] = version + len(rows)
        self._keys[request.key] = (content, first, self.head())
        return Committed(first, self.head(), version + len(rows))

    def _write(self, request: Append, row: Encoded, version: int) -> None:
        at = max(self._now(), self._rows[-1].at) if self._rows else self._now()
        unlinked = Stored(
            position=Position(len(self._rows) + 1),
            stream=request.stream,
            version=version,
            at=at,
            actor=request.actor,
            cause=request.cause,
            type=row.type,
            schema_version=row.schema_version,
            payload=payload_text(row),
            digest=row.digest,
            chain=b"",
        )
        previous = self._rows[-1].chain if self._rows else GENESIS
        self._rows.append(replace(unlinked, chain=link(previous, unlinked)))

    def read(
        self,
        *,
        after: Position = START,
        upto: Position | None = None,
        stream: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[Recorded]:
        """See EventStore.read."""
        for row in self.stored(after=after, upto=upto, types=types):
            if stream is None or row.stream == stream:
                yield decode(row)

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

    def stored(
        self, *, after: Position = START, upto: Position | None = None, types: Sequence[str] | None = None
    ) -> Iterator[Stored]:
        """See EventStore.stored."""
        wanted = None if types is None else frozenset(types)
        last = self.head() if upto is None else min(upto, self.head())
        for index in range(after, last):
            if wanted is None or self._rows[index].type in wanted:
                yield self._rows[index]
