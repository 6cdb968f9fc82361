"""Verify a stored log: digests, order, chain, and the tables of stream versions and append keys.

Ranges of positions are verified in parallel, each from the chain value of the row before it, so the lowest damaged
position found does not depend on the number of processes. Needs only read access; writes nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine, text

from .append_keys import Verified, check_keys, first_of_append
from .chain import GENESIS, verify_payloads
from .database import open_engine, read_connection
from .errors import BrokenChain, GuardDown, VerifierLost
from .postgres import PostgresStore
from .store import START, EventStore, Position, Stored

_LARGEST = 20_000
_PAGE = 2_000

Opening = Callable[[], AbstractContextManager[PostgresStore]]
"""Opens a store for one range. It is sent to other processes, so it must be picklable."""


class Range(NamedTuple):
    """The positions in (after, upto]."""

    after: Position
    upto: Position


@contextmanager
def store_on_one_connection(url: str, project: str, archive: Path | None = None) -> Iterator[PostgresStore]:
    """A store with one dedicated connection. `archive` is the folder of its archived positions."""
    engine = open_engine(url, project, pool_size=1)
    try:
        yield PostgresStore(engine, archive)
    finally:
        engine.dispose()


def ranges(after: Position, upto: Position, workers: int) -> list[Range]:
    """The positions in (after, upto] in order, in ranges so small that `workers` finish at about the same time."""
    size = max(1, min(_LARGEST, -(-(upto - after) // (4 * workers)))) if workers > 1 else _LARGEST
    return [Range(Position(start), Position(min(start + size, upto))) for start in range(after, upto, size)]


def chain_at(store: EventStore, position: Position) -> bytes:
    """The stored chain value at a position. Raises BrokenChain if no row has that position."""
    if position == START:
        return GENESIS
    for row in store.read_stored(after=Position(position - 1), upto=position):
        return row.chain
    raise BrokenChain(position=position, what="its row", actual="missing", expected="an event")


def verify_log(
    opening: Opening,
    *,
    after: Position,
    upto: Position,
    workers: int = 1,
    progress: Callable[[int], object] = lambda _events: None,
) -> bytes:
    """Verify the positions in (after, upto], and return the chain value at `upto`.

    Checks each event's digest, the gapless order and the chain, that `stream_versions` agrees with the events, that
    `append_keys` covers each position once with the digests of the events and a chain that links up, and that the guard
    triggers are in place. A key counts to the range of its last event. Raises BrokenChain with the lowest damaged
    position, SegmentDamaged or ArchiveMissing if archived positions are damaged or missing, GuardDown, VerifierLost.
    `progress` is called with the number of events just verified.
    """
    found = GENESIS if after == START else b""
    damage: list[BrokenChain] = []
    with opening() as store:
        if not found:
            found = chain_at(store, after)
        damage += disagreements(store.engine, after, upto)
        try:
            for part, chain in _side_by_side(opening, ranges(after, upto, workers), workers):
                found = chain
                progress(part.upto - part.after)
        except BrokenChain as broken:
            damage.append(broken)
        if damage:
            raise min(damage, key=_position_of)
        check_guards(store.engine)
    return found


def _side_by_side(opening: Opening, parts: Sequence[Range], workers: int) -> Iterator[tuple[Range, bytes]]:
    """Each range with the chain value at its end, in order. Raises at the first damaged range."""
    if workers == 1:
        yield from ((part, verify_range(opening, part)) for part in parts)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=ignore_interrupts)
    try:
        yield from zip(parts, pool.map(partial(verify_range, opening), parts), strict=True)
    except BrokenProcessPool as error:
        raise VerifierLost(workers=workers) from error
    finally:
        pool.shutdown(cancel_futures=True)


def ignore_interrupts() -> None:
    """Ignore SIGINT, which reaches every process of the terminal: the parent process ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def verify_range(opening: Opening, part: Range) -> bytes:
    """Verify a range from the chain value before it, and return the chain value at its end. Raises BrokenChain."""
    with opening() as store:
        previous, last = chain_at(store, part.after), part.after
        begun = _begun_before(store, part.after)
        seen: list[Verified] = []
        try:
            rows = store.read_stored(after=part.after, upto=part.upto)
            for row, payload in verify_payloads(rows, after=part.after, previous=previous):
                previous, last = row.chain, row.position
                seen.append((row, payload))
                if len(seen) == _PAGE:
                    begun = _check_page(store, begun, seen)
                    seen = []
        except BrokenChain:
            _check_page(store, begun, seen)  # damage at a lower position is reported first
            raise
        _check_page(store, begun, seen)
    if last < part.upto:
        raise BrokenChain(position=last + 1, what="its row", actual="missing", expected="an event")
    return previous


def _begun_before(store: PostgresStore, after: Position) -> list[Verified]:
    """The rows up to a position of the append that goes on after it: its key is checked where its last event is."""
    first = first_of_append(store.engine, after)
    if first > after:
        return []
    before = Position(first - 1)
    rows = store.read_stored(after=before, upto=after)
    return list(verify_payloads(rows, after=before, previous=chain_at(store, before)))


def _check_page(store: PostgresStore, begun: list[Verified], seen: list[Verified]) -> list[Verified]:
    """Check the stream versions of `seen` and the append keys that end there. Returns the rows of an unfinished append.

    Raises BrokenChain with the lowest damaged position.
    """
    rows = [row for row, _ in seen]
    try:
        left = check_keys(store.engine, [*begun, *seen])
    except BrokenChain as broken:
        _check_versions(store.engine, [row for row in rows if row.position < _position_of(broken)])
        raise
    _check_versions(store.engine, rows)
    return left


def _position_of(broken: BrokenChain) -> int:
    return int(str(broken.facts["position"]))


_UNMATCHED = text("""SELECT position, stream, version FROM (
        SELECT r.*, (SELECT CASE WHEN r.version > s.version - s.events THEN s.position - s.version + r.version END
                     FROM stream_versions s WHERE s.stream = r.stream AND s.version >= r.version
                     ORDER BY s.version LIMIT 1) AS kept
        FROM unnest(CAST(:streams AS text[]), CAST(:versions AS bigint[]), CAST(:positions AS bigint[]))
            AS r (stream, version, position)) matched
    WHERE kept IS DISTINCT FROM position ORDER BY position LIMIT 1""")


def _check_versions(engine: Engine, rows: Sequence[Stored]) -> None:
    """Raise BrokenChain unless each event has its entry in stream_versions."""
    if not rows:
        return
    values = {
        "streams": [row.stream for row in rows],
        "versions": [row.version for row in rows],
        "positions": [row.position for row in rows],
    }
    with read_connection(engine) as connection:
        row = connection.execute(_UNMATCHED, values).one_or_none()
    if row is not None:
        expected = f"version {row.version} of {row.stream} there"
        raise BrokenChain(
            position=row.position, what="its entry in stream_versions", actual="another or none", expected=expected
        )


_HEAD = "greatest(CAST(:upto AS bigint), (SELECT coalesce(max(position), 0) FROM events))"
_DISAGREEMENTS = {
    "its entry in stream_versions": (
        "one of several",
        "the only one of that position",
        """SELECT greatest(first, CAST(:after AS bigint) + 1) AS position FROM (
            SELECT first, least(position, coalesce(max(position) OVER (ORDER BY first, position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS again
            FROM (SELECT position, position - events + 1 AS first FROM stream_versions) b) several
        WHERE again >= first AND again > :after AND first <= :upto ORDER BY 1 LIMIT 1""",
    ),
    "its version": (
        "no successor of the one before it in its stream",
        "1, 2, 3, ... in the order of positions",
        """SELECT first FROM (SELECT position - events + 1 AS first, version - events AS version_below, events,
            lag(version, 1, 0::bigint) OVER earlier AS version_before,
            lag(position, 1, 0::bigint) OVER earlier AS position_before FROM stream_versions
            WHERE position - events < :upto WINDOW earlier AS (PARTITION BY stream ORDER BY version)) v
        WHERE first > :after AND (version_below <> version_before OR first <= position_before OR events < 1)
        ORDER BY first LIMIT 1""",
    ),
    "its append key": (
        "one of several, or none",
        "exactly one",
        """SELECT greatest(low, CAST(:after AS bigint) + 1) AS position FROM (
            SELECT least(first_position, covered + 1) AS low,
                CASE WHEN first_position > covered THEN greatest(first_position - 1, covered + 1)
                    ELSE greatest(least(covered, last_position), first_position) END AS high
            FROM (SELECT first_position, last_position,
                    coalesce(max(last_position) OVER (ORDER BY first_position, last_position
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS covered
                FROM append_keys WHERE first_position <= :upto) k
            WHERE first_position <> covered + 1 OR last_position < first_position
            UNION ALL
            SELECT coalesce(max(last_position), 0) + 1, :upto FROM append_keys WHERE first_position <= :upto) wrong
        WHERE high > :after AND low <= :upto ORDER BY 1 LIMIT 1""",
    ),
}
_BEYOND = {
    "stream_versions": f"""SELECT min(CASE WHEN position > {_HEAD} THEN greatest(position - events, {_HEAD}) + 1
            ELSE position - events + 1 END) FROM stream_versions
        WHERE position > {_HEAD} OR position - events < 0""",  # noqa: S608 ours
    "append_keys": f"""SELECT min(CASE WHEN last_position > {_HEAD} THEN greatest(first_position, {_HEAD} + 1)
            ELSE first_position END) FROM append_keys
        WHERE last_position > {_HEAD} OR first_position < 1 OR last_position < first_position""",  # noqa: S608 ours
}


def disagreements(engine: Engine, after: Position, upto: Position) -> Iterator[BrokenChain]:
    """Contradictions within and between `stream_versions` and `append_keys`: the lowest position of each kind.

    Entries beyond the last event, also outside the range, mean that the log was truncated. One statement reads both
    tables, so concurrent appends are not reported.
    """
    with read_connection(engine) as connection:
        for what, (actual, expected, statement) in _DISAGREEMENTS.items():
            position = connection.execute(text(statement), {"after": after, "upto": upto}).scalar()
            if position is not None:
                yield BrokenChain(position=position, what=what, actual=actual, expected=expected)
        for table, statement in _BEYOND.items():
            position = connection.execute(text(statement), {"upto": upto}).scalar()
            if position is not None:
                yield BrokenChain(
                    position=position, what="its row", actual="missing", expected=f"an event, because {table} has one"
                )


_GUARDS = text("""WITH guarded AS (
        SELECT 'events'::regclass AS relation, true AS is_log
        UNION ALL SELECT inhrelid::regclass, true FROM pg_inherits WHERE inhparent = 'events'::regclass
        UNION ALL SELECT name::regclass, false FROM unnest(ARRAY['stream_versions', 'append_keys']) AS t (name))
    SELECT relation::text AS relation, event
    FROM guarded CROSS JOIN (VALUES ('INSERT', 4), ('DELETE', 8), ('UPDATE', 16), ('TRUNCATE', 32)) AS w (event, bit)
    WHERE (is_log OR event <> 'INSERT') AND NOT EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = relation AND tgenabled = 'A' AND (tgtype & bit) <> 0)
    ORDER BY relation::text, event LIMIT 1""")


def check_guards(engine: Engine) -> None:
    """Raise GuardDown unless every table of the log has its ENABLE ALWAYS triggers."""
    with read_connection(engine) as connection:
        row = connection.execute(_GUARDS).one_or_none()
    if row is not None:
        raise GuardDown(table=row.relation, operation=row.event)
