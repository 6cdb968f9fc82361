"""A proxy before one site's pages: agents reach the pages through it, and nothing of the admin surface.

It forwards each request to the site's own address, answers 404 for admin paths, removes the headers that carry a
token, and rewrites the site's address in what it answers to its own, and back in what is sent. What it answered can be
kept. It passes whole answers: no streams without an end, and no web sockets.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final
from urllib.parse import quote, unquote

import httpx2

from .page_server import BYTES, LARGEST_BODY, PLAIN, PageHandler, serve_handler

LARGEST_ANSWER: Final = 64 * 2**20
_OWN: Final = frozenset({"connection", "content-length", "content-encoding", "host", "keep-alive", "transfer-encoding"})
_TEXT: Final = ("text/", "application/json", "application/javascript")
_ENCODINGS: Final = b"gzip, deflate"
_FORMS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    lambda address: address.replace("/", "\\/"),
    lambda address: quote(address, safe=""),
    lambda address: quote(address, safe="/"),
)
_UNQUOTED: Final = 4
TIMEOUT_S: Final = 30.0
_PLACES: Final = ("origin", "referer")
"""Headers that say where a page came from, which a site compares with its own address."""


@dataclass(frozen=True, slots=True)
class PageExchange:
    """A request as the proxy got it, with its path and query, and what it answered. Request headers are not kept."""

    method: str
    path: str
    sent: bytes
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


KeepExchange = Callable[[PageExchange], None]
"""Keeps an exchange before it is answered. Thread-safe."""


def keep_nothing(_exchange: PageExchange) -> None:
    """Keep no exchange."""


@dataclass(frozen=True, slots=True)
class ProxiedPages:
    """The address of the pages. `goes_to` changes the site's address, which is None while there is no instance."""

    url: str
    _upstream: dict[str, str | None]

    def goes_to(self, address: str | None) -> None:
        """Forward to this address from now on."""
        self._upstream["url"] = None if address is None else address.rstrip("/")


@contextmanager
def proxy_pages(
    admin_paths: Collection[str],
    headers: Collection[str],
    keep: KeepExchange = keep_nothing,
    timeout_s: float = TIMEOUT_S,
    most: int = LARGEST_BODY,
) -> Iterator[ProxiedPages]:
    """Serve a proxy on a free port of this machine until the block ends. `headers` are never forwarded.

    An answer that has not begun, or does not go on, within `timeout_s` seconds is none. A request has at most `most`
    bytes.
    """
    upstream: dict[str, str | None] = {"url": None}
    closed = {_plain_path(path) for path in admin_paths} | {
        _plain_path(posixpath.dirname(path)) for path in admin_paths
    }
    dropped = {*_OWN, *(name.lower() for name in headers)}
    # without a jar of its own: what one agent is given must not be sent for the next
    jar = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    with httpx2.Client(trust_env=False, timeout=timeout_s, follow_redirects=False, cookies=jar) as web:

        class Handler(_Forwarding):
            client, target, blocked, hidden = web, upstream, closed - {"/"}, frozenset(dropped)
            kept, largest = staticmethod(keep), most

        with serve_handler(Handler, "pages") as address:
            yield ProxiedPages(address, upstream)


def is_admin_path(target: str, blocked: Collection[str]) -> bool:
    """True if a request's path is an admin path or lies below one, however it is written."""
    path = _plain_path(target.partition("?")[0].partition("#")[0])
    return any(path == each or path.startswith(f"{each}/") for each in blocked)


def _plain_path(path: str) -> str:
    """A path without escapes, doubled slashes, dots, and case."""
    for _ in range(_UNQUOTED):
        path = unquote(path)
    plain = posixpath.normpath("/" + path.replace("\\", "/").lstrip("/"))
    return plain.casefold()


class _Forwarding(PageHandler):
    client: httpx2.Client
    target: Mapping[str, str | None]
    blocked: Collection[str]
    hidden: frozenset[str]
    kept: KeepExchange

    def _forward(self) -> None:
        upstream, sent = self.target["url"], self.read_body()
        if sent is None:
            return
        path = "/" + self.path.partition("#")[0].lstrip("/")
        if upstream is None or is_admin_path(self.path, self.blocked):
            self._reply(path, sent, HTTPStatus.NOT_FOUND, PLAIN, b"There is nothing at this address.\n")
            return
        own = f"http://{self.headers.get('host') or ''}"
        told = swap_origin(sent.decode(BYTES), own, upstream).encode(BYTES)
        asked = re.sub(r"[^!-~]", lambda sign: f"%{ord(sign[0]):02X}", swap_origin(path, own, upstream))
        try:
            status, given, body = self._ask(f"{upstream}{asked}", self._site_headers(upstream, own), told)
        except (httpx2.HTTPError, httpx2.InvalidURL):
            self._reply(path, sent, HTTPStatus.BAD_GATEWAY, PLAIN, b"The site does not answer.\n")
            return
        headers = [(name, _own_header(name, value, upstream, own)) for name, value in given]
        if is_text(headers):
            body = swap_origin(body.decode(BYTES), upstream, own).encode(BYTES)
        self._reply(path, sent, status, headers, body)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _forward  # noqa: N815 (the server's names)

    def _ask(
        self, url: str, headers: list[tuple[bytes, bytes]], sent: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body of the site's answer. Raises httpx2.HTTPError, also for a body without an end."""
        with self.client.stream(self.command, url, headers=headers, content=sent) as got:
            body = bytearray()
            for part in got.iter_bytes():
                body += part
                if len(body) > LARGEST_ANSWER:
                    raise httpx2.TransportError("the answer is too long")
            raw = [(name.decode(BYTES), value.decode(BYTES)) for name, value in got.headers.raw]
            is_head = self.command == "HEAD"
            kept = [(n, v) for n, v in raw if n.lower() not in _OWN or (is_head and n.lower() == "content-length")]
            return got.status_code, kept, bytes(body)

    def _site_headers(self, upstream: str, own: str) -> list[tuple[bytes, bytes]]:
        """The request's headers for the site, which is asked for no encoding that cannot be read here."""
        found = []
        for name, value in self.headers.items():
            if name.lower() in self.hidden:
                continue
            told = swap_origin(value, own, upstream) if name.lower() in _PLACES else value
            found.append((name.encode(BYTES), _ENCODINGS if name.lower() == "accept-encoding" else told.encode(BYTES)))
        return found

    def _reply(self, path: str, sent: bytes, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Keep an answer, and send it."""
        self.kept(PageExchange(self.command, path, sent, status, tuple(headers), body))
        self.answer(status, headers, body)


def _own_header(name: str, value: str, upstream: str, own: str) -> str:
    """A header of the site's as the proxy's own: a cookie of the site's domain is one of the proxy's."""
    if name.lower() == "set-cookie":
        value = re.sub(r";\s*domain=[^;]*", "", value, flags=re.IGNORECASE)
    return swap_origin(value, upstream, own)


def swap_origin(text: str, old: str, new: str) -> str:
    """A text with another scheme, host and port, also where they are quoted for JSON, for an address or for a form."""
    forms = {form(old): form(new) for form in _FORMS}
    found = "|".join(map(re.escape, forms))
    return re.sub(rf"(?:{found})(?![\w:-]|\.\w)", lambda match: forms[match[0]], text)


def is_text(headers: Iterable[tuple[str, str]]) -> bool:
    """True if the headers of an answer say that it is a text, which may hold addresses."""
    kind = next((value.lower() for name, value in headers if name.lower() == "content-type"), "")
    return kind.startswith(_TEXT) or "+json" in kind or "xml" in kind
