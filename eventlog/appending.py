"""One transaction of appends, by a function call or by COPY.

A small batch is one call of `append_events`: one round trip. A larger batch is judged by `judge_appends`, which takes
the append lock and stores the keys, and is then written by binary COPY. Both paths apply the same rule and fire the
same insert trigger. `append_rule.judge_appends` is that rule for the memory store. A group of requests is judged in the
same way, and the transaction is rolled back if one of them is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import chain as joined
from itertools import islice
from struct import Struct
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from .append_rule import judge_group
from .chain import microseconds
from .codec import EncodedAppend, EncodedEvent
from .errors import LogFull
from .store import Committed, Conflict, KeyReused, Outcome, Position, Rejected, Repeated

MOST_BY_CALL = 100
"""Largest number of events for which one call was measured to be faster than COPY with its round trips."""

_REQUEST = ("text", "integer", "bigint", "text", "integer", "bytea", "integer")
_CALL_TYPES = (*_REQUEST, "text", "bigint", "integer", "integer", "text", "integer", "text", "bytea")
_CALL = f"SELECT * FROM append_events({', '.join(f'%b::{kind}[]' for kind in _CALL_TYPES)})"  # noqa: S608
_ASKED = "%b::text, %b::bigint, %b::text, %b::bytea, %b::text, %b::bigint"
_WRITTEN = ("text", "integer", "text", "bytea")
_CALL_ONE = f"SELECT * FROM append_request({_ASKED}, {', '.join(f'ARRAY[%b::{kind}]' for kind in _WRITTEN)})"  # noqa: S608
_CALL_REQUEST = f"SELECT * FROM append_request({_ASKED}, {', '.join(f'%b::{kind}[]' for kind in _WRITTEN)})"  # noqa: S608
_JUDGE = f"SELECT * FROM judge_appends({', '.join(f'%b::{kind}[]' for kind in _REQUEST)})"  # noqa: S608

_ROWS_A_PART = 64
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_TO_2000 = 946_684_800_000_000
_BIGINT = Struct(">iq")
_FIRST = Struct(">hiq")
_LENGTH = Struct(">i")
_HASH = _LENGTH.pack(32)

Cursor = psycopg.Cursor[Any]
"""A binary cursor. Kept as long as its connection, because it caches how values are sent: a third of a call's cost."""


def commit(cursor: Cursor, requests: Sequence[EncodedAppend]) -> list[Outcome]:
    """Judge and write the requests in one transaction, committed on return. Needs a connection in autocommit mode."""
    events = sum(len(request.events) for request in requests)
    return by_call(cursor, requests) if events <= MOST_BY_CALL else by_copy(cursor, requests)


def commit_together(cursor: Cursor, requests: Sequence[EncodedAppend]) -> list[Outcome]:
    """As `commit`, but nothing is written if one of the outcomes is a refusal."""
    if len(requests) == 1:
        return commit(cursor, requests)
    if sum(len(request.events) for request in requests) > MOST_BY_CALL:
        return by_copy(cursor, requests, together=True)
    with _rolled_back_unless_ended(cursor):
        cursor.execute("BEGIN", prepare=False)
        outcomes = by_call(cursor, requests)
        if not isinstance(judge_group(outcomes), Rejected):
            cursor.execute("COMMIT", prepare=False)
    return outcomes


def by_call(cursor: Cursor, requests: Sequence[EncodedAppend]) -> list[Outcome]:
    """Append by one function call. Raises LogFull."""
    query, values = _call(requests)
    try:
        rows = cursor.execute(query, values, prepare=True).fetchall()
    except psycopg.errors.CheckViolation as error:
        raise _log_full(error) from error
    return [_outcome(request, *row) for request, row in zip(requests, rows, strict=True)]


def _call(requests: Sequence[EncodedAppend]) -> tuple[str, tuple[object, ...]]:
    """The SQL call and its values. A single event is sent as scalars, because arrays cost more."""
    if len(requests) > 1:
        return _CALL, (*_judge_arguments(requests), *_events(requests))
    (request,) = requests
    asked = (request.stream, request.expect, request.key, request.content, request.actor, request.cause)
    if len(request.events) > 1:
        return _CALL_REQUEST, (*asked, *_columns(request.events))
    (event,) = request.events
    return _CALL_ONE, (*asked, event.type, event.schema_version, event.payload.decode(), event.digest)


def by_copy(cursor: Cursor, requests: Sequence[EncodedAppend], *, together: bool = False) -> list[Outcome]:
    """Lock and judge, then COPY into the newest partition, then COMMIT.

    The server inserts rows in bulk only into an unpartitioned table. If the rows do not fit into the newest partition,
    they are judged again and copied into the parent table, which routes them. Raises LogFull.
    """
    with suppress(psycopg.errors.CheckViolation):
        return _append_by_copy(cursor, requests, is_direct=True, together=together)
    try:
        return _append_by_copy(cursor, requests, is_direct=False, together=together)
    except psycopg.errors.CheckViolation as error:
        raise _log_full(error) from error


def _log_full(error: psycopg.errors.CheckViolation) -> LogFull:
    """Words in which a row fits into no partition: the error's detail ends with the row's position."""
    found = re.search(r"\((\d+)\)\D*$", error.diag.message_detail or "")
    return LogFull(actual="after the head" if found is None else int(found[1]))


def _append_by_copy(
    cursor: Cursor, requests: Sequence[EncodedAppend], *, is_direct: bool, together: bool
) -> list[Outcome]:
    with _rolled_back_unless_ended(cursor):
        cursor.execute("BEGIN", prepare=False)
        judged = cursor.execute(_JUDGE, _judge_arguments(requests), prepare=True).fetchone()
        if judged is None:
            raise LookupError("judge_appends() answered with no row; expected exactly one")
        _, previous, moment, partition, *columns = judged
        outcomes = [_outcome(*row) for row in zip(requests, *columns, strict=True)]
        if together and isinstance(judge_group(outcomes), Rejected):
            return outcomes
        taken = [(r, o) for r, o in zip(requests, outcomes, strict=True) if isinstance(o, Committed)]
        if taken:
            table = partition if is_direct and partition is not None else "events"
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as sink:
                for part in _parts(joined((_SIGNATURE,), _pack_rows(taken, previous, moment), (_END,))):
                    sink.write(part)
        cursor.execute("COMMIT", prepare=False)
    return outcomes


@contextmanager
def _rolled_back_unless_ended(cursor: Cursor) -> Iterator[None]:
    """Roll back at the end of the block a transaction that the block left open, also after an exception."""
    try:
        yield
    finally:
        connection = cursor.connection
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            cursor.execute("ROLLBACK", prepare=False)


def _judge_arguments(requests: Sequence[EncodedAppend]) -> tuple[list[Any], ...]:
    """One list for each argument of `judge_appends`."""
    return (
        [request.stream for request in requests],
        _before([request.stream for request in requests]),
        [request.expect for request in requests],
        [request.key for request in requests],
        _before([request.key for request in requests]),
        [request.content for request in requests],
        [len(request.events) for request in requests],
    )


def _before(names: Sequence[str]) -> list[int]:
    """For each name the 1-based index of its previous occurrence; 0 for a first occurrence."""
    seen: dict[str, int] = {}
    found = []
    for place, name in enumerate(names, 1):
        found.append(seen.get(name, 0))
        seen[name] = place
    return found


def _events(requests: Sequence[EncodedAppend]) -> tuple[list[Any], ...]:
    """The arguments of `append_events` that are written but not judged."""
    events = [event for request in requests for event in request.events]
    return (
        [request.actor for request in requests],
        [request.cause for request in requests],
        [owner for owner, request in enumerate(requests, 1) for _ in request.events],
        [nth for request in requests for nth in range(len(request.events))],
        *_columns(events),
    )


def _columns(events: Sequence[EncodedEvent]) -> tuple[list[Any], ...]:
    return (
        [event.type for event in events],
        [event.schema_version for event in events],
        [event.payload.decode() for event in events],
        [event.digest for event in events],
    )


def _outcome(request: EncodedAppend, outcome: str, first: int, last: int, version: int) -> Outcome:
    match outcome:
        case "committed":
            return Committed(Position(first), Position(last), version + len(request.events))
        case "repeated":
            return Repeated(Position(first), Position(last))
        case "conflict":
            return Conflict(request.stream, request.expect or 0, version)
        case _:
            return KeyReused(request.key, Position(first), Position(last))


def _parts(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Rows joined into parts, so that the server reads one part while the next is packed."""
    waiting = iter(rows)
    while part := b"".join(islice(waiting, _ROWS_A_PART)):
        yield part


def _pack_rows(taken: Iterable[tuple[EncodedAppend, Committed]], previous: bytes, moment: datetime) -> Iterator[bytes]:
    """The rows in the format of binary COPY, chained in the same way as `chain.link`."""
    at = microseconds(moment)
    at_field, at_bytes = _BIGINT.pack(8, at - _TO_2000), at.to_bytes(8, "big", signed=True)
    for request, outcome in taken:
        position, version = outcome.first, outcome.version - len(request.events) + 1
        stream = _text(request.stream)
        middle = at_field + _text(request.actor) + (_NULL if request.cause is None else _BIGINT.pack(8, request.cause))
        for event in request.events:
            link = b"".join(
                (previous, position.to_bytes(8, "big"), stream, version.to_bytes(8, "big"), at_bytes, event.digest)
            )
            previous = sha256(link).digest()
            yield b"".join(
                (
                    _FIRST.pack(11, 8, position),
                    stream,
                    _BIGINT.pack(8, version),
                    middle,
                    _kind(event.type, event.schema_version),
                    _LENGTH.pack(len(event.payload) + 1),
                    b"\x01",
                    event.payload,
                    _HASH,
                    event.digest,
                    _HASH,
                    previous,
                )
            )
            position, version = Position(position + 1), version + 1


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


@lru_cache(maxsize=1024)
def _kind(kind: str, schema_version: int) -> bytes:
    return _text(kind) + Struct(">ii").pack(4, schema_version)
