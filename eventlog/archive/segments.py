"""The tables `segments` and `dropped`: the archived segments, and the positions dropped from the events table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text

from ..chain import GENESIS
from ..database import project_schema, read_connection
from ..store import START, Position
from .errors import NotTheOwner

if TYPE_CHECKING:
    from .manifest import SegmentManifest

_PAGE = 20
_SELECT = "SELECT manifest::text FROM segments WHERE last > :after AND first <= :upto ORDER BY first LIMIT :page"
_INSERT = """INSERT INTO segments VALUES (:first, :last, :events, decode(:previous, 'hex'), decode(:chain, 'hex'),
    decode(:root, 'hex'), :at, CAST(:manifest AS jsonb))"""
POSITIONS_OF_STREAM = """SELECT p.position FROM stream_versions s,
        generate_series(greatest(s.position - s.events, :after) + 1, least(s.position, :upto)) AS p (position)
    WHERE s.stream = :stream AND s.position > :after AND s.position - s.events < :upto ORDER BY 1 LIMIT :page"""
"""One page of the positions of a stream, both live and archived."""


def live_from(source: Connection | Engine) -> Position:
    """The first live position: all positions before it were archived and dropped from the table.

    It never decreases. A reader that calls this after reading the table knows whether it missed dropped rows.
    """
    with _connection_of(source) as connection:
        dropped = connection.execute(text("SELECT upto FROM dropped ORDER BY upto DESC LIMIT 1")).scalar()
    return Position((dropped or 0) + 1)


def segments(
    source: Connection | Engine, after: Position = START, upto: Position | None = None
) -> Iterator[SegmentManifest]:
    """The segments that overlap the positions (after, upto], in order."""
    from .manifest import parse_manifest

    last = 2**62 if upto is None else upto
    while True:
        with _connection_of(source) as connection:
            found = connection.execute(text(_SELECT), {"after": after, "upto": last, "page": _PAGE}).scalars().all()
        for kept in found:
            manifest = parse_manifest(kept, "in the table segments")
            yield manifest
            after = Position(manifest.last)
        if len(found) < _PAGE:
            return


def archived_upto(connection: Connection) -> tuple[Position, bytes]:
    """The last archived position, and its chain value."""
    row = connection.execute(text("SELECT last, chain FROM segments ORDER BY last DESC LIMIT 1")).one_or_none()
    return (START, GENESIS) if row is None else (Position(row.last), bytes(row.chain))


def first_after(source: Connection | Engine, moment: datetime, below: Position) -> SegmentManifest | None:
    """The first segment that ends below `below` and holds an event recorded after a moment."""
    from .manifest import parse_manifest

    statement = text("SELECT manifest::text FROM segments WHERE at > :at AND last < :below ORDER BY first LIMIT 1")
    with _connection_of(source) as connection:
        found = connection.execute(statement, {"at": moment, "below": below}).scalar()
    return None if found is None else parse_manifest(found, "in the table segments")


def keep(connection: Connection, manifest: SegmentManifest) -> None:
    """Insert a segment into the table. The database checks that it follows the last one and matches the log's chain."""
    values = {name: getattr(manifest, name) for name in ("first", "last", "events", "previous", "chain", "root")}
    text_ = manifest.model_dump_json()
    connection.execute(text(_INSERT), {**values, "at": manifest.last_at, "manifest": text_})


def lock_archive(connection: Connection) -> None:
    """Take the archive lock until the transaction ends, and let the transaction idle while files are written."""
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/archive', 0))"))


def check_owner(engine: Engine) -> None:
    """Raise NotTheOwner unless this role owns the log."""
    with read_connection(engine) as connection:
        is_owner, role = connection.execute(
            text("""SELECT pg_has_role(relowner, 'USAGE'), current_user FROM pg_class
                WHERE oid = to_regclass('segments')""")
        ).one()
    if not is_owner:
        raise NotTheOwner(actual=role, schema=project_schema(engine))


@contextmanager
def _connection_of(source: Connection | Engine) -> Iterator[Connection]:
    if isinstance(source, Connection):
        yield source
        return
    with read_connection(source) as connection:
        yield connection
