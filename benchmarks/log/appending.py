"""Append rates: ours against bare binary COPY and against `eventsourcing`, at 1, 10, 100 and 1000 events per commit.

Our appends include notification, hash chain, idempotency keys and expected versions. The table of COPY has the same
eleven columns without indexes, constraints or triggers. Events are serialised beforehand in every arm.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.made import batches
from benchmarks.report import Target, at_least, median_rates
from eventlog.codec import EncodedAppend, encode_append, encode_events
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Committed

from .peer import MISSING, Peer, peer, plain
from .server import Server

COMMITS = {1: 600, 10: 300, 100: 80, 1000: 16}
"""Number of commits per repeat, for each number of events per commit."""

MANY = "ours in the appends of runs"
"""Arm that appends the batch as separate requests of runs, each with its key, stream and version."""

THREADS = 32
EACH = 40

TARGETS: dict[str, Target] = {
    "append ours / COPY, 100 a commit": at_least(0.5),
    "append ours / COPY, 1000 a commit": at_least(0.5),
    "append ours / eventsourcing, 1 a commit": at_least(1.7),
    "append ours / eventsourcing, 100 a commit": at_least(2.5),
    "append ours / eventsourcing, 1000 a commit": at_least(5),
    "append 32 threads / one thread": at_least(4),
}

_TYPES = ("int8", "text", "int8", "timestamptz", "text", "int8", "text", "int4", "jsonb", "bytea", "bytea")
_TABLE = """CREATE TABLE bench_copy (position bigint, stream text, version bigint, at timestamptz, actor text,
    cause bigint, type text, schema_version integer, payload jsonb, digest bytea, chain bytea)"""

_prefixes = (f"append-{number}" for number in count())

Prepared = Sequence[EncodedAppend]


def prepared(requests: Sequence[Append]) -> Prepared:
    """Serialise requests for the store's append."""
    return [encode_append(request) for request in requests]


def put(store: PostgresStore, requests: Prepared) -> None:
    """Append prepared requests."""
    outcomes = store.append_encoded(requests)
    if not all(isinstance(outcome, Committed) for outcome in outcomes):
        raise ValueError(f"an append was refused: {outcomes}")


def appends(server: Server, repeats: int, scale: float) -> tuple[dict[str, float], dict[str, str]]:
    """Measure rates and ratios; return also the skipped arms with reasons."""
    server.project("appends")
    engine = server.engine("appends", pool_size=THREADS)
    store = PostgresStore(engine)
    figures: dict[str, float] = {}
    with server.plain("appends") as bare, peer(server.peer("peer_appends")) as other:
        bare.execute(_TABLE)
        for size, commits in COMMITS.items():
            figures |= _at(size, max(4, round(commits * scale)), repeats, store, bare, other)
        figures |= _threads(store, repeats, max(5, round(EACH * scale)))
    engine.dispose()
    return figures, {} if other is not None else {"eventsourcing": MISSING}


def _at(
    size: int, commits: int, repeats: int, store: PostgresStore, bare: psycopg.Connection[Any], other: Peer | None
) -> dict[str, float]:
    arms: dict[str, Callable[[], tuple[int, float]]] = {
        "ours": lambda: _ours(store, size, commits, joined=True),
        MANY: lambda: _ours(store, size, commits),
        "COPY": lambda: _copy(bare, size, commits),
    }
    if other is not None:
        arms["eventsourcing"] = lambda: other.insert(plain(_flat(size, commits)), size)
    rates = median_rates(arms, repeats)
    figures = {f"append {name}, {size} a commit, events/s": rate for name, rate in rates.items()}
    for name in [*arms][2:]:
        figures[f"append ours / {name}, {size} a commit"] = rates["ours"] / rates[name]
        figures[f"append {MANY} / {name}, {size} a commit"] = rates[MANY] / rates[name]
    return figures


def _flat(size: int, commits: int) -> list[Append]:
    return [request for batch in batches(size, commits, prefix=next(_prefixes)) for request in batch]


def _ours(store: PostgresStore, size: int, commits: int, *, joined: bool = False) -> tuple[int, float]:
    found = batches(size, commits, prefix=next(_prefixes))
    ready = [prepared((_joined(batch),) if joined else batch) for batch in found]
    began = time.perf_counter()
    for requests in ready:
        put(store, requests)
    return size * commits, time.perf_counter() - began


def _joined(batch: Sequence[Append]) -> Append:
    """Merge the events of a batch into one request for a new stream."""
    events = tuple(event for request in batch for event in request.events)
    return Append(f"{batch[0].stream}/{batch[0].key}", events, batch[0].actor, expect=0, key=f"joined:{batch[0].key}")


def _copy(bare: psycopg.Connection[Any], size: int, commits: int) -> tuple[int, float]:
    """Binary COPY of the same events, with one statement and commit per batch."""
    bare.execute("TRUNCATE bench_copy")
    ready = [_rows(batch) for batch in batches(size, commits, prefix=next(_prefixes))]
    began = time.perf_counter()
    for rows in ready:
        with bare.cursor().copy("COPY bench_copy FROM STDIN (FORMAT BINARY)") as sink:
            sink.set_types(_TYPES)
            for row in rows:
                sink.write_row(row)
    return size * commits, time.perf_counter() - began


def _rows(requests: Sequence[Append]) -> list[tuple[Any, ...]]:
    at, chain = datetime.now(UTC), secrets.token_bytes(32)
    found: list[tuple[Any, ...]] = []
    for request in requests:
        for version, row in enumerate(encode_events(request), start=1):
            payload = Jsonb(row.payload, dumps=_as_is)
            common = (row.type, row.schema_version, payload, row.digest, chain)
            found.append((len(found) + 1, request.stream, version, at, request.actor, request.cause, *common))
    return found


def _as_is(payload: Any) -> bytes:
    return bytes(payload)


def _threads(store: PostgresStore, repeats: int, each: int) -> dict[str, float]:
    """Rates of single-event appends from one thread, and from many concurrent threads."""

    def alone() -> tuple[int, float]:
        return _ours(store, 1, each * 8)

    def line(batches_of_one: Sequence[Prepared]) -> None:
        for requests in batches_of_one:
            put(store, requests)

    def together() -> tuple[int, float]:
        ready = [[prepared(batch) for batch in batches(1, each, prefix=next(_prefixes))] for _ in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            began = time.perf_counter()
            list(pool.map(line, ready))
            return THREADS * each, time.perf_counter() - began

    rates = median_rates({"one thread": alone, f"{THREADS} threads": together}, repeats)
    return {f"append single events, {name}, events/s": rate for name, rate in rates.items()} | {
        f"append {THREADS} threads / one thread": rates[f"{THREADS} threads"] / rates["one thread"]
    }
