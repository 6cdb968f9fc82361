"""The blob store contract: put, get and erase by address. An Inventory can also list, copy and remove its blobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from ..keys import Keys
    from .envelope import Envelope

FRESH = timedelta(minutes=10)
"""Putting a blob again refreshes its time if it is older than this, so that no sweep removes it before the event that
names it is appended."""

GRACE = timedelta(hours=1)
"""Minimum age at which an orphaned blob may be removed: more than FRESH plus the time between a put and its event."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


def is_address(text: str) -> bool:
    """True if the text has the form of an address: 64 lower-case hexadecimal digits."""
    return _ADDRESS.fullmatch(text) is not None


class Blob(msgspec.Struct, frozen=True, dict=True):
    """Bytes and their media type."""

    media_type: str
    body: bytes

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.body).hexdigest()


class BlobStore(Protocol):
    """A store of blobs. A blob is put before the event that names it is appended."""

    def put(self, blobs: Iterable[Blob], *, subject: str | None = None) -> tuple[str, ...]:
        """Store the blobs that are not stored yet, and return the addresses of all, in order.

        Without a subject, the address is the digest. With a subject, the bytes are encrypted with the subject's key and
        addressed by HMAC, so deduplication stays within the subject. Raises SubjectGone if the subject was erased.
        """
        ...

    def address_function(self, subject: str | None = None) -> Callable[[Blob], str]:
        """A function that computes addresses for the subject's blobs without storing them. Raises SubjectGone."""
        ...

    def get(self, address: str) -> Blob:
        """The blob at an address, verified against it. Raises BlobMissing, BlobDamaged, BlobErased."""
        ...

    def erase(self, subject: str) -> int:
        """Destroy the subject's key and bytes, and return the number of its blobs. Idempotent."""
        ...

    def digests(self) -> frozenset[str]:
        """All stored addresses, including those of erased blobs."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """A blob in a listing. `size` counts the plain bytes, `stored` the bytes after encoding (0: erased)."""

    address: str
    media_type: str
    size: int
    stored: int
    at: datetime
    subject: bytes | None
    is_erased: bool


class Inventory(BlobStore, Protocol):
    """A blob store whose blobs can be listed, verified, copied and swept."""

    @property
    def keys(self) -> Keys:
        """The store of the subjects' keys."""
        ...

    def list_blobs(self, *, after: str = "") -> Iterator[Listed]:
        """Every blob after an address, in order of address. `at` is when it was last put, by the store's clock."""
        ...

    def read_envelopes(self, addresses: Iterable[str] | None = None) -> Iterator[Envelope]:
        """The stored forms of these blobs, or of all, in order of address: encoded, and encrypted if a subject's.

        Raises BlobMissing for an unknown address.
        """
        ...

    def keep(self, envelopes: Iterable[Envelope]) -> None:
        """Store blobs given in their stored form, unless they are stored already."""
        ...

    def remove(self, addresses: Iterable[str], *, older_than: timedelta) -> int:
        """Remove these blobs if they are older and not erased, by the store's clock, and return how many were removed.

        Only for blobs that no event names. Raises OwnerNeeded.
        """
        ...
