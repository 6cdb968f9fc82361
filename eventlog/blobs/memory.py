"""A blob store in a dictionary: the reference implementation of the contract, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ..errors import BlobMissing
from ..keys import Keys, MemoryKeys, subject_tag
from .contract import FRESH, Blob, Listed
from .envelope import Envelope, open_envelope, sealer

_DAWN = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryBlobs:
    """An Inventory in one process's memory. `now` is the clock that dates blobs."""

    def __init__(self, keys: Keys | None = None, now: Callable[[], datetime] = lambda: _DAWN) -> None:
        self.keys: Keys = MemoryKeys() if keys is None else keys
        self._now = now
        self._kept: dict[str, tuple[Envelope, datetime]] = {}
        self._lock = threading.Lock()

    def put(self, blobs: Iterable[Blob], *, subject: str | None = None) -> tuple[str, ...]:
        """See BlobStore.put."""
        seal = sealer(self.keys, subject)
        addresses = []
        for blob in blobs:
            address = seal.address(blob)
            addresses.append(address)
            if address not in self._kept or self._kept[address][1] < self._now() - FRESH:
                self.keep([seal.envelope(blob, address)])
        return tuple(addresses)

    def address_function(self, subject: str | None = None) -> Callable[[Blob], str]:
        """See BlobStore.address_function."""
        return sealer(self.keys, subject).address

    def get(self, address: str) -> Blob:
        """See BlobStore.get."""
        if address not in self._kept:
            raise BlobMissing(actual=address)
        return open_envelope(self._kept[address][0], self.keys)

    def erase(self, subject: str) -> int:
        """See BlobStore.erase."""
        self.keys.destroy(subject)
        tag = subject_tag(subject)
        with self._lock:
            found = {name: kept for name, kept in self._kept.items() if kept[0].subject == tag}
            self._kept |= {name: (replace(envelope, body=None), at) for name, (envelope, at) in found.items()}
        return len(found)

    def digests(self) -> frozenset[str]:
        """See BlobStore.digests."""
        return frozenset(self._kept)

    def list_blobs(self, *, after: str = "") -> Iterator[Listed]:
        """See Inventory.list_blobs."""
        for address in sorted(self._kept):
            if address > after:
                envelope, at = self._kept[address]
                yield Listed(
                    address,
                    envelope.media_type,
                    envelope.size,
                    len(envelope.body or b""),
                    at,
                    envelope.subject,
                    envelope.body is None,
                )

    def read_envelopes(self, addresses: Iterable[str] | None = None) -> Iterator[Envelope]:
        """See Inventory.read_envelopes."""
        for address in sorted(self._kept if addresses is None else set(addresses)):
            if address not in self._kept:
                raise BlobMissing(actual=address)
            yield self._kept[address][0]

    def keep(self, envelopes: Iterable[Envelope]) -> None:
        """See Inventory.keep."""
        with self._lock:
            for envelope in envelopes:
                first, _ = self._kept.get(envelope.address, (envelope, None))
                self._kept[envelope.address] = (first, self._now())

    def remove(self, addresses: Iterable[str], *, older_than: timedelta) -> int:
        """See Inventory.remove."""
        before = self._now() - older_than
        with self._lock:
            gone = [
                name
                for name in set(addresses) & self._kept.keys()
                if self._kept[name][0].body is not None and self._kept[name][1] < before
            ]
            for name in gone:
                del self._kept[name]
        return len(gone)
