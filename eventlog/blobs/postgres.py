"""A blob store in the project's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import ProgrammingError

from ..database import read_connection, single_statements
from ..errors import BlobMissing, BytesRemain, OwnerNeeded
from ..keys import Keys, NoKeys, subject_tag
from .contract import FRESH, Blob, Listed, is_address
from .envelope import ENCODINGS, Envelope, open_envelope, sealer

_PAGE = 1000
_AT_ONCE = 8 * 2**20
"""Maximum bytes of bodies in one statement, unless a single body is larger."""

_LARGE = 32 * 1024
"""Bytes of a body from which on asking whether it is stored is cheap beside sending it."""

_T = TypeVar("_T")
B = TypeVar("B")
_DENIED = "42501"
_FRESH = f"interval '{int(FRESH.total_seconds())} seconds'"
_COLUMNS = "address, media_type, size, encoding, subject, body"
_INSERT = f"""INSERT INTO blobs (address, size, encoding, subject, media_type, body)
    SELECT * FROM unnest(%(address)b::bytea[], %(size)b::bigint[], %(encoding)b::smallint[], %(subject)b::bytea[],
        %(media_type)b::text[], %(body)b::bytea[]) AS r (address, size, encoding, subject, media_type, body)
    ORDER BY address
    ON CONFLICT (address) DO UPDATE SET at = clock_timestamp() WHERE blobs.at < clock_timestamp() - {_FRESH}"""  # noqa: S608
_THERE = f"""SELECT encode(address, 'hex') FROM blobs
    WHERE address = ANY(%(addresses)b::bytea[]) AND at >= clock_timestamp() - {_FRESH}"""  # noqa: S608
_LATER = text("SET LOCAL synchronous_commit = off")
_LISTING = text("""SELECT address, media_type, size, coalesce(octet_length(body), 0) AS stored, at, subject,
    body IS NULL AS is_erased FROM blobs WHERE address > :after ORDER BY address LIMIT :page""")


@dataclass(frozen=True, slots=True)
class PostgresBlobs:
    """An Inventory in the project's schema. Without `keys` it stores no blobs of subjects.

    The application's role can put and get; only the owner's role can remove bytes, by `erase` and `remove`. With
    `waits` False, a put does not wait for the disk: the append of the event that names the blob comes later in the same
    write-ahead log and does wait, so an acknowledged event never names bytes lost in a crash. With `checks` False, a
    put asks which blobs are stored only of large ones, which is faster where hardly any is.
    """

    engine: Engine
    keys: Keys = field(default_factory=NoKeys)
    waits: bool = True
    checks: bool = True

    def put(self, blobs: Iterable[Blob], *, subject: str | None = None) -> tuple[str, ...]:
        """See BlobStore.put. With `checks`, what is stored and FRESH is neither encoded nor sent again."""
        seal = sealer(self.keys, subject)
        given = [(seal.address(blob), blob) for blob in blobs]
        named = dict(reversed(given))
        asked = sorted(address for address, blob in named.items() if self.checks or len(blob.body) > _LARGE)
        known = self._fresh(asked) if asked else frozenset()
        self.keep(seal.envelopes({address: blob for address, blob in named.items() if address not in known}))
        return tuple(address for address, _ in given)

    def address_function(self, subject: str | None = None) -> Callable[[Blob], str]:
        """See BlobStore.address_function."""
        return sealer(self.keys, subject).address

    def get(self, address: str) -> Blob:
        """See BlobStore.get."""
        return open_envelope(next(self.read_envelopes([address])), self.keys)

    def erase(self, subject: str) -> int:
        """See BlobStore.erase. Destroys the key first, so that nobody can read the blobs any more.

        The bytes are removed by a function that only the schema's owner may call. With another role's engine, the key
        is destroyed and BytesRemain is raised: erase again as the owner. Rows stay as tombstones. PostgreSQL frees the
        old bytes at its next vacuum; backups and replicas keep them, unreadable.
        """
        self.keys.destroy(subject)
        try:
            with self.engine.begin() as connection:
                return int(
                    connection.execute(text("SELECT erase_blobs(:tag)"), {"tag": subject_tag(subject)}).scalar_one()
                )
        except ProgrammingError as error:
            _unless_denied(error)
            raise BytesRemain(subject=subject, actual=self.engine.url.username) from error

    def digests(self) -> frozenset[str]:
        """See BlobStore.digests."""
        with read_connection(self.engine) as connection:
            return frozenset(connection.execute(text("SELECT encode(address, 'hex') FROM blobs")).scalars())

    def list_blobs(self, *, after: str = "") -> Iterator[Listed]:
        """See Inventory.list_blobs."""
        last = bytes.fromhex(after) if is_address(after) else b""
        while True:
            with read_connection(self.engine) as connection:
                rows = connection.execute(_LISTING, {"after": last, "page": _PAGE}).all()
            for row in rows:
                subject = None if row.subject is None else bytes(row.subject)
                yield Listed(
                    bytes(row.address).hex(), row.media_type, row.size, row.stored, row.at, subject, row.is_erased
                )
            if len(rows) < _PAGE:
                return
            last = bytes(rows[-1].address)

    def read_envelopes(self, addresses: Iterable[str] | None = None) -> Iterator[Envelope]:
        """See Inventory.read_envelopes."""
        wanted = iter(sorted(set(addresses))) if addresses is not None else (row.address for row in self.list_blobs())
        while page := list(islice(wanted, _PAGE)):
            for batch in self._batches(page):
                yield from self._fetch_envelopes(batch)

    def keep(self, envelopes: Iterable[Envelope]) -> None:
        """See Inventory.keep. In order of address, so that concurrent callers cannot deadlock."""
        ordered = sorted(envelopes, key=lambda envelope: envelope.address)
        if ordered:
            with self.engine.begin() as connection:
                if not self.waits:
                    connection.execute(_LATER)
                insert(connection, ordered)

    def remove(self, addresses: Iterable[str], *, older_than: timedelta) -> int:
        """See Inventory.remove. With the owner's engine."""
        statement = text(
            "DELETE FROM blobs WHERE address IN (SELECT address FROM blobs WHERE address = ANY(:addresses)"
            " AND body IS NOT NULL AND at < clock_timestamp() - CAST(:age AS interval) ORDER BY address FOR UPDATE)"
        )
        wanted, removed = iter(sorted(set(addresses))), 0
        try:
            while page := [bytes.fromhex(address) for address in islice(wanted, _PAGE)]:
                with self.engine.begin() as connection:
                    removed += connection.execute(statement, {"addresses": page, "age": older_than}).rowcount
        except ProgrammingError as error:
            _unless_denied(error)
            raise OwnerNeeded(what="Removing blobs", actual=self.engine.url.username) from error
        return removed

    def _fresh(self, addresses: Sequence[str]) -> frozenset[str]:
        values = {"addresses": [bytes.fromhex(address) for address in addresses]}
        with single_statements(self.engine) as cursor:
            return frozenset(address for (address,) in cursor.execute(_THERE, values, prepare=True).fetchall())

    def _batches(self, addresses: Sequence[str]) -> Iterator[list[bytes]]:
        """The addresses in batches whose bodies fit into one response. Raises BlobMissing."""
        statement = "SELECT address, octet_length(body) AS stored FROM blobs WHERE address = ANY(%b::bytea[])"
        for address in addresses:
            if not is_address(address):
                raise BlobMissing(actual=address)
        wanted = [bytes.fromhex(address) for address in addresses]
        if len(wanted) == 1:
            yield wanted
            return
        with read_connection(self.engine) as connection:
            rows = connection.exec_driver_sql(statement, (wanted,)).all()
        stored = {bytes(row.address): row.stored or 0 for row in rows}
        yield from _portions(wanted, lambda address: stored.get(address, 0))

    def _fetch_envelopes(self, addresses: Sequence[bytes]) -> Iterator[Envelope]:
        statement = f"SELECT {_COLUMNS} FROM blobs WHERE address = ANY(%b::bytea[])"  # noqa: S608 columns of ours
        with read_connection(self.engine) as connection:
            rows = connection.exec_driver_sql(statement, (list(addresses),)).all()
        found = {bytes(row.address): row for row in rows}
        for address in addresses:
            if address not in found:
                raise BlobMissing(actual=address.hex())
            yield _envelope(found[address])


def insert(connection: Connection, envelopes: Iterable[Envelope]) -> None:
    """Insert stored forms in the caller's transaction. They must be in order of address."""
    once = {envelope.address: envelope for envelope in envelopes}
    for batch in _portions(once.values(), lambda envelope: len(envelope.body or b"")):
        values = {
            "address": [bytes.fromhex(envelope.address) for envelope in batch],
            "size": [envelope.size for envelope in batch],
            "encoding": [ENCODINGS.index(envelope.encoding) for envelope in batch],
            "subject": [envelope.subject for envelope in batch],
            "media_type": [envelope.media_type for envelope in batch],
            "body": [envelope.body for envelope in batch],
        }
        connection.exec_driver_sql(_INSERT, values)


def _portions(items: Iterable[_T], weight: Callable[[_T], int]) -> Iterator[list[_T]]:
    portion: list[_T] = []
    heavy = 0
    for item in items:
        if portion and (heavy + weight(item) > _AT_ONCE or len(portion) == _PAGE):
            yield portion
            portion, heavy = [], 0
        portion.append(item)
        heavy += weight(item)
    if portion:
        yield portion


def _envelope(row: Row[Any]) -> Envelope:
    return Envelope(
        bytes(row.address).hex(),
        row.media_type,
        row.size,
        ENCODINGS[row.encoding],
        None if row.subject is None else bytes(row.subject),
        None if row.body is None else bytes(row.body),
    )


def without_flush(blobs: B, *, are_new: bool = False) -> B:
    """The same store for a caller that appends an event after each put; PostgresBlobs then skips the disk flush.

    With `are_new`, what is put is hardly ever stored already, so PostgresBlobs does not ask.
    """
    return replace(blobs, waits=False, checks=not are_new) if isinstance(blobs, PostgresBlobs) else blobs


def _unless_denied(error: ProgrammingError) -> None:
    if getattr(error.orig, "sqlstate", None) != _DENIED:
        raise error
