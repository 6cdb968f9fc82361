"""Content-addressed bytes: stored once however often they recur, and erasable without touching the log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Engine, text

from .errors import BlobDamaged, BlobMissing


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes and what they are."""

    media_type: str
    body: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.body).hexdigest()


class BlobStore(Protocol):
    """Where blobs live. A blob is put before the event that names it is appended."""

    def put(self, blobs: Iterable[Blob], *, subject: str | None = None) -> tuple[str, ...]:
        """Keep the blobs; those already there are left alone. Their addresses, in order: what events name them by.

        Without a subject an address is the digest. With one the bytes are kept under the subject's key and addressed by
        HMAC, so that they are shared inside the subject alone. Raises SubjectGone once the subject was erased.
        """
        ...

    def get(self, address: str) -> Blob:
        """The blob of an address, checked against it. Raises BlobMissing, BlobDamaged, BlobErased."""
        ...

    def erase(self, subject: str) -> int:
        """Destroy the subject's key and bytes; the number of its blobs. Doing it again is harmless."""
        ...

    def digests(self) -> frozenset[str]:
        """All digests kept."""
        ...


class MemoryBlobs:
    """A BlobStore as a dictionary."""

    def __init__(self) -> None:
        self._blobs: dict[str, Blob] = {}

    def put(self, blobs: Iterable[Blob]) -> None:
        """See BlobStore.put."""
        for blob in blobs:
            self._blobs.setdefault(blob.digest, blob)

    def get(self, digest: str) -> Blob:
        """See BlobStore.get."""
        if digest not in self._blobs:
            raise BlobMissing(actual=digest)
        return self._blobs[digest]

    def digests(self) -> frozenset[str]:
        """See BlobStore.digests."""
        return frozenset(self._blobs)


@dataclass(frozen=True, slots=True)
class PostgresBlobs:
    """A BlobStore in the project's schema."""

    engine: Engine

    def put(self, blobs: Iterable[Blob]) -> None:
        """See BlobStore.put. Sorted by digest, so that concurrent callers cannot deadlock."""
        rows = {b.digest: {"d": b.digest, "m": b.media_type, "n": len(b.body), "b": b.body} for b in blobs}
        if not rows:
            return
        statement = text("INSERT INTO blobs VALUES (:d, :m, :n, :b) ON CONFLICT DO NOTHING")
        with self.engine.begin() as connection:
            connection.execute(statement, [rows[digest] for digest in sorted(rows)])

    def get(self, digest: str) -> Blob:
        """See BlobStore.get."""
        with self.engine.connect() as connection:
            row = connection.execute(
                text("SELECT media_type, body FROM blobs WHERE digest = :d"), {"d": digest}
            ).one_or_none()
        if row is None:
            raise BlobMissing(actual=digest)
        blob = Blob(row.media_type, bytes(row.body))
        if blob.digest != digest:
            raise BlobDamaged(actual=blob.digest, expected=digest)
        return blob

    def digests(self) -> frozenset[str]:
        """See BlobStore.digests."""
        with self.engine.connect() as connection:
            return frozenset(connection.execute(text("SELECT digest FROM blobs")).scalars())
