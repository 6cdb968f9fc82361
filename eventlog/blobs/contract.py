"""What a blob store is: put, get and erase by address; and what else can be done to one that can be looked through."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..keys import Keys
    from .envelope import Envelope

FRESH = timedelta(minutes=10)
"""How old a blob may be and still be left alone when it is put again; an older one is dated anew, so that no sweep
takes it before the event that names it is appended."""

GRACE = timedelta(hours=1)
"""The least age at which an unnamed blob may be removed: beyond FRESH and what lies between a put and its event."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


def is_address(text: str) -> bool:
    """Whether a text has the form of an address: 64 lower-case hexadecimal digits."""
    return _ADDRESS.fullmatch(text) is not None


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

    def address_function(self, subject: str | None = None) -> Callable[[Blob], str]:
        """How this store addresses blobs of the subject, without keeping them. Raises SubjectGone."""
        ...

    def get(self, address: str) -> Blob:
        """The blob of an address, checked against it. Raises BlobMissing, BlobDamaged, BlobErased."""
        ...

    def erase(self, subject: str) -> int:
        """Destroy the subject's key and bytes; the number of its blobs. Doing it again is harmless."""
        ...

    def digests(self) -> frozenset[str]:
        """All addresses kept, those of erased blobs among them."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing shows of a blob. `size` is of the plain bytes, `stored` of what is kept of them (0: erased)."""

    address: str
    media_type: str
    size: int
    stored: int
    at: datetime
    subject: bytes | None
    is_erased: bool


class Inventory(BlobStore, Protocol):
    """A store that can be looked through: listed, verified, carried elsewhere, swept."""

    @property
    def keys(self) -> Keys:
        """Where the subjects' keys are."""
        ...

    def list_blobs(self, *, after: str = "") -> Iterator[Listed]:
        """Every blob beyond an address, in order of address; `at` is when it was last put, by the store's clock."""
        ...

    def read_envelopes(self, addresses: Iterable[str] | None = None) -> Iterator[Envelope]:
        """These blobs, or all, as they are stored, in order of address: encoded, and encrypted if a subject's.

        Raises BlobMissing for an address that is not there.
        """
        ...

    def keep(self, envelopes: Iterable[Envelope]) -> None:
        """Take over blobs in their stored form; those already there are left alone."""
        ...

    def remove(self, addresses: Iterable[str], *, older_than: timedelta) -> int:
        """Remove those of the blobs that are older and not erased, by the store's clock; how many were removed.

        Only for blobs that no event names. Raises OwnerNeeded.
        """
        ...
