"""The golden log with its blobs, to be read and to be tampered with: what the tests of time share."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from eventlog.blobs import Blob, Inventory
from eventlog.blobs.envelope import from_plain, open_envelope
from eventlog.errors import BlobErased, BlobMissing
from eventlog.keys import NoKeys
from eventlog.store import START, EventStore, Position, Recorded
from projections.counterfactual import EventMap, Mapped, ViewsAt
from projections.engine.views import ReplayedViews
from tests.conftest import GOLDEN
from tests.golden.test_golden_samples import golden_log

Event = Any


@dataclass(frozen=True)
class GoldenStore:
    """The reading side of a store that holds the golden log."""

    def head(self) -> Position:
        return golden_log()[-1].position

    def disowned_positions(self, upto: int | None = None) -> frozenset[Position]:
        return frozenset()

    def read(
        self,
        *,
        after: int = START,
        upto: int | None = None,
        stream: str | None = None,
        types: Any = None,
        actor: str | None = None,
    ) -> Any:
        for item in golden_log():
            is_in = item.position > after and (upto is None or item.position <= upto)
            is_of = stream in {None, item.stream} and actor in {None, item.actor}
            if is_in and is_of and (types is None or item.event.type in types):
                yield item


@dataclass(frozen=True)
class KeptBlobs:
    """Blobs as a dictionary, some of them erased."""

    kept: Mapping[str, Blob]
    erased: frozenset[str] = frozenset()

    def get(self, address: str) -> Blob:
        if address in self.erased:
            raise BlobErased(actual=address)
        if address not in self.kept:
            raise BlobMissing(actual=address)
        return self.kept[address]


@cache
def golden_kept() -> dict[str, Blob]:
    """The blobs of the golden log, by digest."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        entries = [entry for entry in map(json.loads, lines) if "blob" in entry]
    return {entry["blob"]: open_envelope(from_plain(entry), NoKeys()) for entry in entries}


GOLDEN_STORE = cast("EventStore", GoldenStore())


def golden_blobs(*, erased: str | None = None, added: Mapping[str, Blob] | None = None) -> Inventory:
    gone = frozenset() if erased is None else frozenset({erased})
    return cast("Inventory", KeptBlobs({**golden_kept(), **(added or {})}, gone))


def views_of(store: EventStore) -> ViewsAt:
    return lambda upto: ReplayedViews(store, store.head() if upto is None else upto)


def tampered(change: Callable[[Event], Event | None], where: Callable[[Recorded], bool]) -> EventStore:
    """The golden log with some of its events changed, or taken out."""

    def mapped(item: Recorded) -> Recorded | None:
        if not where(item):
            return item
        event = change(item.event)
        return None if event is None else replace(item, event=event)

    mapping: EventMap = mapped
    return cast("EventStore", Mapped(GOLDEN_STORE, mapping))


def test_the_golden_blobs_are_addressed_by_their_digests() -> None:
    assert len(golden_kept()) == 123
    assert all(blob.digest == address for address, blob in golden_kept().items())
