"""Fetch many blobs at once from an inventory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .envelope import open_envelope

if TYPE_CHECKING:
    from .contract import Blob, Inventory


def fetch_blobs(blobs: Inventory, addresses: Iterable[str]) -> Iterator[tuple[str, Blob]]:
    """Each distinct address with its blob, in order of address. Raises BlobMissing, BlobDamaged, BlobErased."""
    for envelope in blobs.read_envelopes(addresses):
        yield envelope.address, open_envelope(envelope, blobs.keys)
