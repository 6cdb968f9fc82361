"""Answers an agent from the record of its run, so that it can be played again without its site and its model.

A request gets the first recorded answer to the same request that was not given yet, so that requests may come in
another order. The first one that is not in the record is noted; each such one is answered by an error.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from ...envs.page_proxy import PageExchange, is_text
from ...envs.page_server import PageHandler, serve_handler
from ..executor import PassedOn
from ..site_record import LARGEST_SENT, Door, SiteRecord
from .recorded_headers import dated_today
from .task import TaskModel

Lines = tuple[str, ...]
GONE: Final = (("content-type", "text/plain"), ("x-should-retry", "false"))
"""Headers of the answer to what is not in the record; the clients of OpenAI and Anthropic do not ask again."""

_LINES: Final = 20
_WIDTH: Final = 200
_NOTHING: Final = "nothing further"
_THINGS: Final[Mapping[Door, str]] = {"pages": "request", "actions": "action", "model": "call"}


@dataclass(frozen=True, slots=True)
class Other:
    """What an agent did that is not in the record, beside what is, as lines. `name` says what kind of thing it is.

    It `is_beyond` the record if everything in it had been asked before.
    """

    name: str
    where: str
    expected: Lines
    actual: Lines
    is_beyond: bool


@dataclass
class RecordedSite:
    """A record that is served at `urls`. `left` is what was not asked yet, `other` the first thing asked besides."""

    record: SiteRecord
    urls: dict[Door, str] = field(default_factory=dict)
    left: dict[Door, list[PageExchange]] = field(default_factory=dict)
    other: Other | None = None
    given: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def swap_in(self, text: str) -> str:
        """A text of the record with today's addresses."""
        return _swap(text, self._hosts())

    def swap_out(self, text: str) -> str:
        """A text of today with the addresses of the record."""
        return _swap(text, {new: old for old, new in self._hosts().items()})

    def _hosts(self) -> dict[str, str]:
        """Host and port of each door in the record, and those of today."""
        return {urlsplit(self.record.urls[door]).netloc: urlsplit(url).netloc for door, url in self.urls.items()}

    def answer(self, door: Door, method: str, path: str, sent: bytes) -> PageExchange | None:
        """The recorded answer to a request; None if there is none any more."""
        wanted = (method, self.swap_out(path), _one_boundary(self.swap_out(sent.decode("latin-1")).encode("latin-1")))
        with self.lock:
            left = self.left[door]
            place = next((n for n, each in enumerate(left) if _request_of(each) == wanted), None)
            if place is not None:
                self.given += 1
                return left.pop(place)
            if self.other is None:
                name, number = _THINGS[door], len(self.record.exchanges[door]) - len(left)
                expected = _request_lines(*_request_of(left[0])) if left else (_NOTHING,)
                shown = _shown_alike(expected, _request_lines(*wanted))
                self.other = Other(f"{name}s", f"{name} {number}", *shown, is_beyond=not any(self.left.values()))
            return None

    def list_unasked(self) -> Lines:
        """What of the record was not asked for at last, a line each."""
        return tuple(
            f"{_THINGS[door]}: {each.method} {each.path}"[:_WIDTH] for door, left in self.left.items() for each in left
        )

    def facts(self) -> dict[str, Any]:
        """Facts of the task that are told as they were, with today's addresses."""
        record, facts = self.record, {"page_headers": dict.fromkeys(self.record.page_headers, "recorded")}
        acting = {"actions": list(record.actions), "seen": record.seen, "act_url": self.urls.get("actions", "")}
        return facts | acting

    @contextmanager
    def open_model(self, _advice: str, _weights: str) -> Iterator[RecordedAccess | None]:
        """The endpoint of the run's model; None if it had none. See AgentExecutor."""
        url, name = self.urls.get("model"), self.record.model
        yield None if url is None or name is None else RecordedAccess(TaskModel(f"{url}/v1", url, "recorded", name))


@dataclass(frozen=True, slots=True)
class RecordedAccess:
    """A model endpoint that answers from a record. See ModelAccess."""

    model: TaskModel

    def calls(self, _taken: int) -> tuple[PassedOn, ...]:
        """None: the record has them."""
        return ()

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def serve_record(record: SiteRecord) -> Iterator[RecordedSite]:
    """Serve each door of a record until the block ends: on its own port, else on a free one, with addresses swapped."""
    site = RecordedSite(record)
    with ExitStack() as stack:
        for door, was in record.urls.items():
            parts = urlsplit(was)
            own = serve_handler(_handler(site, door), f"recorded {door}", parts.port or 0)
            address = stack.enter_context(own)
            site.left[door] = list(record.exchanges[door])
            site.urls[door] = address + was.removeprefix(f"{parts.scheme}://{parts.netloc}")
        yield site


def _handler(site: RecordedSite, door: Door) -> type[PageHandler]:
    class Handler(PageHandler):
        largest = LARGEST_SENT

        def reply(self) -> None:
            sent = self.read_body()
            if sent is None:
                return
            found = site.answer(door, self.command, "/" + self.path.partition("#")[0].lstrip("/"), sent)
            if found is None:
                self.answer(HTTPStatus.GONE, GONE, b"No such request is in the record.\n")
                return
            headers = [(name, site.swap_in(value)) for name, value in dated_today(found.headers)]
            body = site.swap_in(found.body.decode("latin-1")).encode("latin-1") if is_text(headers) else found.body
            self.answer(found.status, headers, body)

        do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = reply  # noqa: N815 (the server's names)

    return Handler


def _swap(text: str, hosts: Mapping[str, str]) -> str:
    """A text with other hosts and ports, also where they are quoted for an address or a form."""
    quoted = {old.replace(":", c): new.replace(":", c) for old, new in hosts.items() for c in (":", "%3A", "%3a")}
    if not quoted:
        return text
    found = "|".join(map(re.escape, quoted))
    return re.sub(rf"(?:{found})(?!\d)", lambda match: quoted[match[0]], text)


def _request_of(each: PageExchange) -> tuple[str, str, bytes]:
    return each.method, each.path, _one_boundary(each.sent)


def _one_boundary(sent: bytes) -> bytes:
    """A body of parts with one boundary between them, which clients draw at random."""
    line, ends, _ = sent.partition(b"\r\n")
    is_parts = bool(ends) and len(line) > len(b"--") and sent.rstrip(b"\r\n").endswith(line + b"--")
    return sent.replace(line, b"--boundary") if is_parts and line.startswith(b"--") else sent


def _request_lines(method: str, path: str, sent: bytes) -> Lines:
    body = sent.decode("utf-8", "backslashreplace")
    return (f"{method} {path}", *(f"sent: {line}" for line in body.splitlines()))


def _shown_alike(expected: Lines, actual: Lines) -> tuple[Lines, Lines]:
    """Two requests as they are shown: the lines around the first that differs, cut around what differs in it.

    Requests that differ in no line, but in their ends, are told so.
    """
    longest = max(len(expected), len(actual))
    padded = [(*lines, *[""] * (longest - len(lines))) for lines in (expected, actual)]
    differs = next((n for n, (one, other) in enumerate(zip(*padded, strict=True)) if one != other), None)
    if differs is None:
        return (*expected[:1], "sent: with other ends of lines"), (*actual[:1], "sent: the same words")
    shown = sorted({0, *range(differs, min(longest, differs + _LINES))})
    cut = [_cut_alike(padded[0][n], padded[1][n]) for n in shown]
    left, right = (tuple(each[side] for each in cut if each[side]) for side in (0, 1))
    return left, right


def _cut_alike(one: str, other: str) -> tuple[str, str]:
    differs = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, differs - _WIDTH // 2) if max(len(one), len(other)) > _WIDTH else 0
    begins = "…" if start else ""
    left, right = (f"{begins}{text[start : start + _WIDTH]}" if text else "" for text in (one, other))
    return left, right
