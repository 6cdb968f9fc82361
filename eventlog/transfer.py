"""Export a whole log to a file, and import it: one JSON line for the header, each event, append key and blob.

Positions, times, digests and chain values are preserved. The import inserts as the schema's owner, without the append
function; the insert trigger checks contiguity and chain as on every path.
"""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial as bound
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DataError, IntegrityError

from .blobs import Blob, Inventory, PostgresBlobs, postgres
from .blobs.envelope import Envelope, Sealer, envelope_json, from_plain
from .chain import GENESIS, verify_chain
from .database import first_line
from .disk import flush_to_disk
from .errors import BlobDamaged, LogNotEmpty, NotALog
from .postgres import PostgresStore
from .store import START, Position, Stored

FORMAT = "flywheel-log-2"
PLAIN_BLOBS = "flywheel-log-1"
"""The previous format: its blobs are plain, without size, encoding and subject."""

_BATCH = 500
_SHAPELESS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, DataError, IntegrityError)
"""Exceptions raised, here or by the database, for an entry that is not a valid event, key or blob."""


Progress = Callable[[], object]
"""Called once for each event."""


def export_log(
    engine: Engine,
    file: Path,
    progress: Progress = int,
    *,
    blobs: Inventory | None = None,
    archive: Path | None = None,
) -> int:
    """Write the log up to its head to a file, and return the number of events. `file` appears only when complete.

    Dropped positions are read from the segments in `archive`; an import puts all of them into one table. `blobs`
    defaults to those of the database. They are written in their stored form: those of subjects encrypted, without
    their keys. The others include every page an agent read, so only the file's owner may read the file. Raises
    OSError, ArchiveMissing, SegmentDamaged.
    """
    partial = _begin_file(file)
    store, kept = PostgresStore(engine, archive=archive), PostgresBlobs(engine) if blobs is None else blobs
    upto = store.head()
    addresses = kept.digests()
    with _open(partial, "wt", compressed=file.suffix == ".gz") as out:
        out.write(_line({"format": FORMAT, "head": upto, "blobs": len(addresses)}))
        for row in store.read_stored(upto=upto):
            out.write(_line(_plain(row)))
            progress()
        for key in _keys(engine, upto):
            out.write(_line(key))
        for found in kept.read_envelopes(addresses):
            out.write(_line(envelope_json(found)))
    flush_to_disk(partial)
    partial.replace(file)
    flush_to_disk(file.parent)
    return upto


def refuse_unwritable(file: Path) -> None:
    """Raise OSError if an export to this file would fail at once."""
    _begin_file(file).unlink()


def _begin_file(file: Path) -> Path:
    """Create an empty temporary file beside the target, readable only by its owner. Raises OSError."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(file))
    partial = file.with_name(file.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    return partial


def events_in(file: Path) -> int:
    """Number of events in an exported log, from its header. Raises NotALog, OSError."""
    with _open(file, "rt", compressed=file.suffix == ".gz") as lines:
        head = _header(file, _entries(file, lines)).get("head")
    if not isinstance(head, int) or head < START:
        raise NotALog(file=file, actual=f"the head {head!r}", expected="a number of events")
    return head


def import_log(engine: Engine, file: Path, progress: Progress = int, *, blobs: Inventory | None = None) -> int:
    """Import an exported log into an empty one, atomically, and return the number of events.

    `engine` connects as the schema's owner. Blobs go into the database, or into `blobs`; there, blobs of a failed
    import may remain until a sweep removes them. A subject's blobs read as *erased* unless their keys are present.
    Raises LogNotEmpty, NotALog, BrokenChain, BlobDamaged.
    """
    with _open(file, "rt", compressed=file.suffix == ".gz") as lines, engine.begin() as connection:
        entries = _entries(file, lines)
        header = _header(file, entries)
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/append', 0))"))
        actual = connection.execute(text("SELECT max(position) FROM events")).scalar()
        if actual is not None:
            raise LogNotEmpty(actual=actual)
        keep = bound(postgres.insert, connection) if blobs is None else blobs.keep
        found = Counter[str]()
        for batch in _batches(entries):
            try:
                after, is_linked = Position(found["events"]), not found["unlinked"]
                done = _insert(connection, batch, keep, after=after, is_linked=is_linked)
            except _SHAPELESS as error:
                raise NotALog(file=file, actual=f"a malformed entry: {first_line(error)}", expected=FORMAT) from error
            found += done
            for _ in range(done["events"]):
                progress()
        expected = {"events": header.get("head"), "keyed events": header.get("head"), "blobs": header.get("blobs")}
        for what, amount in expected.items():
            if found[what] != amount:
                raise NotALog(file=file, actual=f"{found[what]} {what}", expected=f"{amount} according to its header")
    return found["events"]


def _insert(
    connection: Connection,
    batch: list[dict[str, Any]],
    keep: Callable[[list[Envelope]], None],
    *,
    after: Position,
    is_linked: bool,
) -> Counter[str]:
    rows = [_row(entry) for entry in batch if "position" in entry]
    keys = [entry for entry in batch if "key" in entry]
    unlinked = sum(key.get("chain") is None for key in keys)
    keyed = sum(key["last"] - key["first"] + 1 for key in keys)
    blobs = [_blob(entry) for entry in batch if "blob" in entry]
    if rows:
        previous = _chain_at(connection, after)
        body = json.dumps([_plain(row) for row in verify_chain(rows, after=after, previous=previous)])
        connection.execute(text("SELECT reserve_partitions(:upto)"), {"upto": rows[-1].position})
        connection.execute(text(_INSERT_EVENTS), {"rows": body})
    if keys:
        values = {"rows": json.dumps(keys), "is_linked": is_linked and not unlinked}
        connection.execute(text(_INSERT_KEYS), values)
    keep(sorted(blobs, key=lambda found: found.address))
    return Counter({"events": len(rows), "keyed events": keyed, "unlinked": unlinked, "blobs": len(blobs)})


def _blob(entry: dict[str, Any]) -> Envelope:
    if "encoding" in entry:
        return from_plain(entry)
    blob = Blob(entry["media_type"], base64.b64decode(entry["body"], validate=True))
    if blob.digest != entry["blob"]:
        raise BlobDamaged(actual=blob.digest, expected=entry["blob"])
    return Sealer().envelope(blob, blob.digest)


_INSERT_EVENTS = """INSERT INTO events
    SELECT position, stream, version, at, actor, cause, type, schema_version, payload,
           decode(digest, 'hex'), decode(chain, 'hex')
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (position bigint, stream text, version bigint, at timestamptz,
        actor text, cause bigint, type text, schema_version integer, payload jsonb, digest text, chain text)
    ORDER BY position"""
_INSERT_KEYS = """INSERT INTO append_keys
    SELECT key, decode(digest, 'hex'), first, last, CASE WHEN :is_linked THEN decode(chain, 'hex') ELSE key_chain_over(
        coalesce((SELECT chain FROM append_keys ORDER BY last_position DESC LIMIT 1), decode(repeat('00', 32), 'hex')),
        key, decode(digest, 'hex'), first, last) OVER (ORDER BY first) END
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r (key text, digest text, first bigint, last bigint, chain text)"""
"""If keys of an export lack a chain value, they and all later ones are linked up here, as migration 0011 does it."""


def _chain_at(connection: Connection, position: Position) -> bytes:
    if position == START:
        return GENESIS
    statement = text("SELECT chain FROM events WHERE position = :position")
    return bytes(connection.execute(statement, {"position": position}).scalar_one())


def _keys(engine: Engine, upto: Position) -> Iterator[dict[str, Any]]:
    statement = text("SELECT * FROM append_keys WHERE last_position <= :upto ORDER BY first_position")
    with engine.connect() as connection:
        for row in connection.execute(statement, {"upto": upto}):
            yield {
                "key": row.key,
                "digest": bytes(row.digest).hex(),
                "first": row.first_position,
                "last": row.last_position,
                "chain": bytes(row.chain).hex(),
            }


def _plain(row: Stored) -> dict[str, Any]:
    return {
        "position": row.position,
        "stream": row.stream,
        "version": row.version,
        "at": row.at.isoformat(),
        "actor": row.actor,
        "cause": row.cause,
        "type": row.type,
        "schema_version": row.schema_version,
        "payload": json.loads(row.payload),
        "digest": row.digest.hex(),
        "chain": row.chain.hex(),
    }


def _row(entry: dict[str, Any]) -> Stored:
    return Stored(
        **{
            **entry,
            "at": datetime.fromisoformat(entry["at"]),
            "payload": json.dumps(entry["payload"]),
            "digest": bytes.fromhex(entry["digest"]),
            "chain": bytes.fromhex(entry["chain"]),
        }
    )


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def _entries(file: Path, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    try:
        for line in lines:
            entry = json.loads(line)
            if not isinstance(entry, dict):
                raise NotALog(file=file, actual=f"the line {line[:40]!r}", expected="a JSON object on each line")
            yield entry
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise NotALog(file=file, actual=str(error), expected="lines of JSON") from error


def _header(file: Path, entries: Iterator[dict[str, Any]]) -> dict[str, Any]:
    header = next(entries, {})
    if header.get("format") not in {FORMAT, PLAIN_BLOBS}:
        raise NotALog(file=file, actual=header.get("format"), expected=FORMAT)
    return header


def _batches(entries: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(entries, _BATCH)):
        yield batch


@contextmanager
def _open(file: Path, mode: str, *, compressed: bool) -> Iterator[TextIO]:
    opener: Callable[..., Any] = gzip.open if compressed else open
    with opener(file, mode, encoding="utf-8") as stream:
        yield stream
