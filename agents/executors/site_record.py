"""What an agent of one's own was told and answered in one run, as one blob, so that it can be played again.

An agent reaches its surroundings through doors: the site's pages, its actions where there are no pages, and its model.
A recorder puts a proxy before each, which keeps every request with its answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from eventlog.blobs import Blob
from eventlog.errors import BlobDamaged

from ..envs.page_proxy import PageExchange, proxy_pages

RECORD_TYPE: Final = "application/vnd.flywheel.site+json"
LARGEST: Final = 16 * 2**20
"""Most bytes that are kept of one run."""

LARGEST_SENT: Final = 64 * 2**20
"""Most bytes of one request, more than a model endpoint takes."""

Door = Literal["pages", "actions", "model"]
DOORS: Final[tuple[Door, ...]] = get_args(Door)
_BYTES: Final = "latin-1"
"""Bytes as text, one character each: a text of ASCII stays one, and nothing is lost of any other."""


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """What an agent was told of its surroundings at first, and each answer in order.

    `urls` are the addresses of the doors that there were, `exchanges` what went through each. `model` is the name of
    its model. `acted` are the numbers of those steps that are actions; the others the agent reported. If it is not
    `is_whole`, there were more than LARGEST bytes, and no exchange is kept.
    """

    urls: Mapping[Door, str]
    exchanges: Mapping[Door, tuple[PageExchange, ...]]
    model: str | None = None
    seen: str = ""
    actions: tuple[Mapping[str, str], ...] = ()
    page_headers: tuple[str, ...] = ()
    acted: tuple[int, ...] = ()
    is_whole: bool = True

    @property
    def answers(self) -> int:
        """Number of answers that are kept."""
        return sum(map(len, self.exchanges.values()))

    def blob(self) -> Blob:
        """The record as it is stored."""
        kept = {door: [_plain(each) for each in found] for door, found in self.exchanges.items()}
        plain = {**asdict(self), "exchanges": kept}
        return Blob(RECORD_TYPE, json.dumps(plain, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def read_site_record(address: str, blob: Blob) -> SiteRecord:
    """The record of a blob at an address. Raises BlobDamaged if it is none."""
    try:
        told = json.loads(blob.body.decode("utf-8", "surrogatepass"))
        kept = {door: tuple(map(_read, told["exchanges"][door])) for door in DOORS if door in told["exchanges"]}
        lists = {name: tuple(told[name]) for name in ("actions", "page_headers", "acted")}
        return SiteRecord(told["urls"], kept, told["model"], told["seen"], **lists, is_whole=told["is_whole"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise BlobDamaged(actual=f"right, but they are no record of a site ({problem})", expected=address) from problem


def _plain(each: PageExchange) -> dict[str, Any]:
    return asdict(each) | {"sent": each.sent.decode(_BYTES), "body": each.body.decode(_BYTES)}


def _read(told: Mapping[str, Any]) -> PageExchange:
    headers = tuple((str(name), str(value)) for name, value in told["headers"])
    sent, body = told["sent"].encode(_BYTES), told["body"].encode(_BYTES)
    return PageExchange(told["method"], told["path"], sent, told["status"], headers, body)


@dataclass
class SiteRecorder:
    """Collects what goes through the doors of one run, up to LARGEST bytes. Thread-safe."""

    model: str | None = None
    seen: str = ""
    actions: Sequence[Mapping[str, str]] = ()
    page_headers: Sequence[str] = ()
    acted: list[int] = field(default_factory=list)
    urls: dict[Door, str] = field(default_factory=dict)
    kept: list[tuple[Door, PageExchange]] = field(default_factory=list)
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def open_door(self, door: Door, address: str, timeout_s: float) -> Iterator[str]:
        """The address of a proxy before this one, until the end of the block. It keeps what it answers."""

        def keep(exchange: PageExchange) -> None:
            with self.lock:
                self.size += _size(exchange)
                if self.size > LARGEST:
                    self.kept.clear()
                else:
                    self.kept.append((door, exchange))

        parts = urlsplit(address)
        origin = f"{parts.scheme}://{parts.netloc}"
        with proxy_pages((), (), keep, timeout_s, LARGEST_SENT) as proxied:
            proxied.goes_to(origin)
            self.urls[door] = proxied.url + address.removeprefix(origin)
            yield self.urls[door]

    def record(self) -> SiteRecord:
        """What was kept until now."""
        with self.lock:
            return SiteRecord(
                urls=dict(self.urls),
                exchanges={door: tuple(each for at, each in self.kept if at == door) for door in self.urls},
                model=self.model,
                seen=self.seen,
                actions=tuple(self.actions),
                page_headers=tuple(self.page_headers),
                acted=tuple(self.acted),
                is_whole=self.size <= LARGEST,
            )


def _size(exchange: PageExchange) -> int:
    """Bytes of an exchange, with its path and its headers."""
    told = sum(len(name) + len(value) for name, value in exchange.headers)
    return len(exchange.path) + len(exchange.sent) + told + len(exchange.body)
