"""A blob store in an object store: S3, Google Cloud Storage, a folder, memory. Needs the extra `objects`.

A blob is the object `ab/cdef...`: its address, split after two digits, holding a packed envelope. An empty object
`subjects/<tag>/<address>` is written before each blob of a subject, so that erasure finds all of them. Credentials and
endpoints come from the environment variables of the store's clients (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ..errors import BlobMissing, ObjectStoreUnusable
from ..keys import Keys, subject_tag
from .contract import FRESH, Blob, Listed, is_address
from .envelope import HEADER_MOST, Envelope, open_envelope, pack, sealer, unpack

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "file", "memory")
_SUBJECTS = "subjects"
_PARALLEL = 16
_PATIENCE = timedelta(seconds=20)
"""Time within which a failing request is retried, at most three times."""

_From = TypeVar("_From")
_To = TypeVar("_To")


def open_objects(url: str, keys: Keys) -> ObjectBlobs:
    """Open the blob store at a URL; create its folder if needed. Raises ObjectStoreUnusable."""
    return ObjectBlobs(url, open_store(url), keys)


def open_store(url: str) -> ObjectStore:
    """Open the object store at a URL; create its folder if needed. Raises ObjectStoreUnusable."""
    if url.partition("://")[0] not in SCHEMES:
        raise ObjectStoreUnusable(url=url, actual="its URL scheme is not supported")
    try:
        from obstore.store import from_url  # noqa: PLC0415 an extra, imported on use
    except ImportError as error:
        raise ObjectStoreUnusable(
            url=url, actual="obstore is not installed (pip install 'flywheel[objects]')"
        ) from error
    try:
        with _translate_errors(url):
            return _open_store(url, from_url)
    except OSError as error:
        raise ObjectStoreUnusable(url=url, actual=str(error).partition("\n")[0]) from error


def _open_store(url: str, from_url: Callable[..., ObjectStore]) -> ObjectStore:
    match url.partition("://")[0]:
        case "file":
            return from_url(url, mkdir=True)
        case "memory":
            return from_url("memory:///")
        case _:
            return from_url(url, retry_config={"max_retries": 3, "retry_timeout": _PATIENCE})


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ObjectBlobs:
    """An Inventory in an object store. `now` is compared with the objects' modification times in the store."""

    url: str
    store: ObjectStore
    keys: Keys
    now: Callable[[], datetime] = _utc

    def put(self, blobs: Iterable[Blob], *, subject: str | None = None) -> tuple[str, ...]:
        """See BlobStore.put."""
        seal = sealer(self.keys, subject)
        given = [(seal.address(blob), blob) for blob in blobs]
        named = dict(reversed(given))
        self._each(lambda item: self._put(seal.envelope(item[1], item[0])), named.items())
        return tuple(address for address, _ in given)

    def address_function(self, subject: str | None = None) -> Callable[[Blob], str]:
        """See BlobStore.address_function."""
        return sealer(self.keys, subject).address

    def get(self, address: str) -> Blob:
        """See BlobStore.get."""
        return open_envelope(self._envelope(address), self.keys)

    def erase(self, subject: str) -> int:
        """See BlobStore.erase. Each object becomes a tombstone; versions kept by a bucket remain, but unreadable."""
        self.keys.destroy(subject)
        marks = self._list_objects(f"{_SUBJECTS}/{subject_tag(subject).hex()}/")
        return sum(self._each(lambda mark: self._bury(mark["path"].rpartition("/")[2]), marks))

    def digests(self) -> frozenset[str]:
        """See BlobStore.digests."""
        return frozenset(self._metas())

    def list_blobs(self, *, after: str = "") -> Iterator[Listed]:
        """See Inventory.list_blobs. Sends one request for each blob, to read its header."""
        metas = self._metas()
        wanted = iter(sorted(address for address in metas if address > after))
        while page := list(islice(wanted, 1000)):
            yield from self._each(lambda address: self._header(address, metas[address]), page)

    def read_envelopes(self, addresses: Iterable[str] | None = None) -> Iterator[Envelope]:
        """See Inventory.read_envelopes."""
        wanted = iter(sorted(self._metas() if addresses is None else set(addresses)))
        while page := list(islice(wanted, _PARALLEL)):
            yield from self._each(self._envelope, page)

    def keep(self, envelopes: Iterable[Envelope]) -> None:
        """See Inventory.keep."""
        self._each(self._put, envelopes)

    def remove(self, addresses: Iterable[str], *, older_than: timedelta) -> int:
        """See Inventory.remove. Needs only permission to delete objects.

        Each blob's age is checked again just before its deletion, so that a blob put again since the listing stays. One
        race remains, because object stores have no common conditional delete: a blob older than `older_than` that is
        put again between that check and the deletion, one request apart, is lost.
        """
        before, metas = self.now() - older_than, self._metas()
        old = [name for name in sorted(set(addresses)) if name in metas and metas[name]["last_modified"] < before]
        return sum(self._each(lambda address: self._delete(address, before), old))

    def _put(self, envelope: Envelope) -> None:
        if envelope.subject is not None:
            self._write(_mark(envelope.subject, envelope.address), b"")
        if self._write(_path(envelope.address), pack(envelope), mode="create"):
            return
        try:
            with _translate_errors(self.url):
                if self.store.head(_path(envelope.address))["last_modified"] < self.now() - FRESH:
                    self._write(_path(envelope.address), self._read(envelope.address))
        except (BlobMissing, FileNotFoundError):  # a concurrent sweep removed it
            self._write(_path(envelope.address), pack(envelope))

    def _bury(self, address: str) -> int:
        """Turn a blob into a tombstone, and return 1; 0 if the blob of this mark was never written."""
        try:
            envelope = self._envelope(address)
        except BlobMissing:
            return 0
        if envelope.body is not None:
            self._write(_path(address), pack(replace(envelope, body=None)))
        return 1

    def _delete(self, address: str, before: datetime) -> int:
        """Delete a blob, and return 1; 0 if it was erased, put again since `before`, or is gone."""
        try:
            envelope = self._envelope(address)
            with _translate_errors(self.url):
                is_young = self.store.head(_path(address))["last_modified"] >= before
        except (BlobMissing, FileNotFoundError):
            return 0
        if envelope.body is None or is_young:
            return 0
        with _translate_errors(self.url):
            self.store.delete(_path(address))
            if envelope.subject is not None:
                self.store.delete(_mark(envelope.subject, address))
        return 1

    def _envelope(self, address: str) -> Envelope:
        return unpack(address, self._read(address))[0]

    def _header(self, address: str, meta: ObjectMeta) -> Listed:
        with _translate_errors(self.url):
            beginning = bytes(self.store.get_range(_path(address), start=0, end=min(meta["size"], HEADER_MOST)))
        envelope, start = unpack(address, beginning)
        is_erased = envelope.body is None
        return Listed(
            address,
            envelope.media_type,
            envelope.size,
            0 if is_erased else meta["size"] - start,
            meta["last_modified"],
            envelope.subject,
            is_erased,
        )

    def _read(self, address: str) -> bytes:
        if not is_address(address):
            raise BlobMissing(actual=address)
        try:
            with _translate_errors(self.url):
                return bytes(self.store.get(_path(address)).bytes())
        except FileNotFoundError as error:
            raise BlobMissing(actual=address) from error

    def _write(self, path: str, body: bytes, *, mode: str = "overwrite") -> bool:
        """Write an object; False if the mode is `create` and the object exists already."""
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 an extra, imported on use

        with _translate_errors(self.url):
            try:
                self.store.put(path, body, mode="create" if mode == "create" else "overwrite")
            except AlreadyExistsError:
                return False
        return True

    def _metas(self) -> dict[str, ObjectMeta]:
        found = {meta["path"].replace("/", "", 1): meta for meta in self._list_objects(None)}
        return {address: meta for address, meta in found.items() if is_address(address)}

    def _list_objects(self, prefix: str | None) -> Iterator[ObjectMeta]:
        with _translate_errors(self.url):
            for page in self.store.list(prefix):
                yield from page

    def _each(self, work: Callable[[_From], _To], items: Iterable[_From]) -> list[_To]:
        """Apply `work` to each item, several in parallel, because each waits for the network."""
        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="blobs") as pool:
            return list(pool.map(work, items))


def _path(address: str) -> str:
    return f"{address[:2]}/{address[2:]}"


def _mark(tag: bytes, address: str) -> str:
    return f"{_SUBJECTS}/{tag.hex()}/{address}"


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Raise the library's errors as ObjectStoreUnusable; a missing object stays a FileNotFoundError."""
    from obstore.exceptions import AlreadyExistsError, BaseError  # noqa: PLC0415 an extra, imported on use

    try:
        yield
    except (FileNotFoundError, AlreadyExistsError):
        raise
    except (BaseError, PermissionError, ValueError) as error:
        raise ObjectStoreUnusable(url=url, actual=str(error).strip().partition("\n")[0]) from error
