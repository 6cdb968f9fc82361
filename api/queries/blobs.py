"""Blobs as they are stored: addresses, media types and sizes, without the bytes."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

import msgspec

from eventlog.blobs import Listed
from eventlog.blobs.contract import Inventory


class BlobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored blob: `bytes` counts it plain, `stored` as it is encoded (0: erased); `at` is when it was last put."""

    address: str
    media_type: str
    bytes: int
    stored: int
    at: datetime
    is_subjects: bool
    erased: bool


class BlobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Blobs in order of address; `next` is the address to continue after, null where no more follow."""

    blobs: tuple[BlobRow, ...]
    next: str | None


def list_blobs(blobs: Inventory, *, after: str | None = None, limit: int) -> BlobPage:
    """A page of the blobs, in order of address."""
    found = tuple(map(blob_row, islice(blobs.list_blobs(after=after or ""), limit + 1)))
    return BlobPage(blobs=found[:limit], next=found[limit - 1].address if len(found) > limit else None)


def blob_row(item: Listed) -> BlobRow:
    """A blob of a listing as a row."""
    return BlobRow(
        address=item.address,
        media_type=item.media_type,
        bytes=item.size,
        stored=item.stored,
        at=item.at,
        is_subjects=item.subject is not None,
        erased=item.is_erased,
    )
