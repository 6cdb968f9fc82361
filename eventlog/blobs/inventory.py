"""Compare a blob store with the log: find referenced, orphaned, damaged and missing blobs, and sweep orphans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from ..errors import BlobDamaged, BlobErased
from ..references import NAMING, Mention, count_references, mentions
from ..store import EventStore
from .contract import GRACE, Inventory, Listed
from .conversations import MESSAGE_TYPE, node
from .envelope import Envelope, open_envelope

Progress = Callable[[], object]
"""Called once for each blob read."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The stored blobs, and the reference count of each address.

    `unreadable` are the tags of subjects with messages that cannot be decrypted here, so their references are unknown.
    """

    listed: Mapping[str, Listed]
    counts: Mapping[str, int]
    unreadable: frozenset[bytes]

    def orphans(self) -> list[Listed]:
        """Blobs known to be unreferenced. Erased blobs are excluded, because reads of them must answer *erased*."""
        return [
            item
            for address, item in self.listed.items()
            if address not in self.counts and not item.is_erased and item.subject not in self.unreadable
        ]


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a verification. `erased` counts blobs whose subject's key is destroyed or not available here.

    `damaged` maps addresses to error messages, `missing` to the event or the message that names them.
    """

    blobs: int
    erased: int
    damaged: Mapping[str, str]
    missing: Mapping[str, str]


def survey(store: EventStore, blobs: Inventory, progress: Progress = int) -> Survey:
    """Count the references to every blob. Raises BlobDamaged if a message, which may name others, is damaged."""
    named = mentions(store.read(types=NAMING))
    listed: dict[str, Listed] = {}
    for item in blobs.list_blobs():
        listed[item.address] = item
        progress()
    parents: dict[str, str | None] = {}
    unreadable: set[bytes] = set()
    messages = [item.address for item in listed.values() if item.media_type == MESSAGE_TYPE and not item.is_erased]
    for envelope in blobs.read_envelopes(messages):
        try:
            parents[envelope.address] = node(envelope.address, open_envelope(envelope, blobs.keys))[1]
        except BlobErased:
            unreadable |= {envelope.subject} if envelope.subject is not None else set()
    return Survey(listed, count_references(named, parents), frozenset(unreadable))


def sweep(store: EventStore, blobs: Inventory, older_than: timedelta, progress: Progress = int) -> int:
    """Remove orphaned blobs that were last put longer ago than `older_than`, and return how many.

    Raises ValueError below GRACE, OwnerNeeded, BlobDamaged.
    """
    if older_than < GRACE:
        raise ValueError(
            f"older_than is {older_than}; expected at least {GRACE}, so that no blob is removed before its event"
        )
    orphans = survey(store, blobs, progress).orphans()
    return blobs.remove([item.address for item in orphans], older_than=older_than)


def verify(store: EventStore, blobs: Inventory, progress: Progress = int) -> Found:
    """Decode every blob and compare it with its address; then find referenced blobs that are missing."""
    named = mentions(store.read(types=NAMING))
    damaged: dict[str, str] = {}
    parents: dict[str, str | None] = {}
    there, erased = 0, 0
    addresses = set()
    for envelope in blobs.read_envelopes():
        there += 1
        addresses.add(envelope.address)
        try:
            parents |= _parent(envelope, blobs)
        except BlobErased:
            erased += 1
        except BlobDamaged as error:
            damaged[envelope.address] = str(error)
        progress()
    return Found(there, erased, damaged, _missing_addresses(addresses, named, parents))


def _parent(envelope: Envelope, blobs: Inventory) -> dict[str, str | None]:
    blob = open_envelope(envelope, blobs.keys)
    return {envelope.address: node(envelope.address, blob)[1]} if blob.media_type == MESSAGE_TYPE else {}


def _missing_addresses(
    addresses: Iterable[str], named: Mapping[str, Mention], parents: Mapping[str, str | None]
) -> dict[str, str]:
    there = set(addresses)
    by_event = {
        address: f"{mention.type} at position {mention.first}"
        + (f" and {mention.count - 1} more" * (mention.count > 1))
        for address, mention in named.items()
        if address not in there
    }
    by_message = {
        parent: f"the message {child}"
        for child, parent in parents.items()
        if parent is not None and parent not in there
    }
    return by_message | by_event
