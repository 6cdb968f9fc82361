"""The append rule: which requests of a batch are committed, and at which positions. Pure.

The memory store applies it; the database applies the same rule in SQL. Requests are judged in order: first the append
key, then the expected version, which includes the events committed earlier in the batch. Requests that are appended
together are written only if none of them is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from .codec import EncodedAppend
from .store import Acceptance, Committed, Conflict, KeyReused, Outcome, Position, Rejected, Repeated, Stored


@dataclass(frozen=True, slots=True)
class Keyed:
    """A used append key: the content digest of its request and the positions of its events."""

    content: bytes
    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Known:
    """State of the log before a batch: the head, and the append keys and stream versions that the batch refers to."""

    head: Position
    keys: Mapping[str, Keyed]
    versions: Mapping[str, int]


def judge_appends(requests: Sequence[EncodedAppend], known: Known) -> list[Outcome]:
    """One outcome for each request. Committed requests follow the head without a gap."""
    keys, versions, head = dict(known.keys), dict(known.versions), known.head
    outcomes: list[Outcome] = []
    for request in requests:
        outcome = _judge_request(request, head, keys.get(request.key), versions.get(request.stream, 0))
        if isinstance(outcome, Committed):
            head = outcome.last
            keys[request.key] = Keyed(request.content, outcome.first, outcome.last)
            versions[request.stream] = outcome.version
        outcomes.append(outcome)
    return outcomes


def judge_group(outcomes: Sequence[Outcome]) -> tuple[Acceptance, ...] | Rejected:
    """The result of requests that are written together or not at all, from the outcome of each."""
    written = tuple(outcome for outcome in outcomes if isinstance(outcome, Committed | Repeated))
    if len(written) == len(outcomes):
        return written
    return Rejected(tuple(None if isinstance(outcome, Committed | Repeated) else outcome for outcome in outcomes))


def _judge_request(request: EncodedAppend, head: Position, seen: Keyed | None, version: int) -> Outcome:
    if seen is not None:
        is_same = seen.content == request.content
        return Repeated(seen.first, seen.last) if is_same else KeyReused(request.key, seen.first, seen.last)
    if request.expect is not None and request.expect != version:
        return Conflict(request.stream, request.expect, version)
    amount = len(request.events)
    return Committed(Position(head + 1), Position(head + amount), version + amount)


def place_rows(request: EncodedAppend, outcome: Committed, at: datetime) -> Iterator[Stored]:
    """The rows of a committed request, with an empty chain value."""
    version = outcome.version - len(request.events)
    for offset, row in enumerate(request.events):
        yield Stored(
            position=Position(outcome.first + offset),
            stream=request.stream,
            version=version + offset + 1,
            at=at,
            actor=request.actor,
            cause=request.cause,
            type=row.type,
            schema_version=row.schema_version,
            payload=row.payload.decode(),
            digest=row.digest,
            chain=b"",
        )
