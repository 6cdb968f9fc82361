"""What every blob store keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pytest

from eventlog.blobs import Blob, BlobStore, MemoryBlobs, PostgresBlobs
from eventlog.errors import BlobMissing

PAGE = Blob("text/html", b"<p>\x00\xff</p>")


@pytest.fixture(params=["memory", "postgres"])
def blobs(request: pytest.FixtureRequest) -> BlobStore:
    """An empty store of either kind."""
    return MemoryBlobs() if request.param == "memory" else PostgresBlobs(request.getfixturevalue("empty_engine"))


def test_a_blob_is_addressed_by_its_bytes_alone(blobs: BlobStore) -> None:
    blobs.put([PAGE])
    assert PAGE.digest == sha256(PAGE.body).hexdigest()
    assert blobs.get(PAGE.digest) == PAGE
    assert blobs.digests() == {PAGE.digest}


def test_a_blob_is_kept_once_as_it_first_was(blobs: BlobStore) -> None:
    blobs.put([PAGE, PAGE])
    blobs.put([Blob("text/plain", PAGE.body)])
    assert blobs.get(PAGE.digest) == PAGE
    assert len(blobs.digests()) == 1


@pytest.mark.parametrize("body", [b"", b"\0", bytes(range(256)) * 8192], ids=["empty", "nul", "two megabytes"])
def test_any_bytes_come_back(blobs: BlobStore, body: bytes) -> None:
    blob = Blob("application/octet-stream", body)
    blobs.put([blob])
    assert blobs.get(blob.digest) == blob


def test_nothing_may_be_put(blobs: BlobStore) -> None:
    blobs.put([])
    blobs.put(iter(()))
    assert blobs.digests() == frozenset()


@pytest.mark.parametrize("digest", ["0" * 64, "", PAGE.digest.upper()])
def test_a_digest_that_was_never_put_is_missing_by_name(blobs: BlobStore, digest: str) -> None:
    blobs.put([PAGE])
    with pytest.raises(BlobMissing) as caught:
        blobs.get(digest)
    assert caught.value.facts == {"actual": digest}


def test_callers_side_by_side_may_put_the_same_blobs_in_any_order(blobs: BlobStore) -> None:
    many = [Blob("text/plain", str(n).encode()) for n in range(60)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(blobs.put, [many, many[::-1], many[30:] + many[:30], many[::2], many[1::2], many]))
    assert blobs.digests() == {blob.digest for blob in many}
