"""A proxy before one site's pages: agents reach the pages through it, and nothing of the admin surface.

It forwards each request to the site's own address, answers 404 for admin paths, removes the headers that carry a
token, and rewrites the site's own address in what it answers to the proxy's.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote

import httpx2

LARGEST_BODY: Final = 16 * 2**20
_OWN: Final = frozenset({"connection", "content-length", "content-encoding", "host", "keep-alive", "transfer-encoding"})
_TEXT: Final = ("text/", "application/json", "application/javascript", "application/xhtml+xml")
_PLAIN: Final = (("content-type", "text/plain"),)
_UNQUOTED: Final = 4
TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ProxiedPages:
    """The address of the pages. `goes_to` changes the site's address, which is None while there is no instance."""

    url: str
    _upstream: dict[str, str | None]

    def goes_to(self, address: str | None) -> None:
        """Forward to this address from now on."""
        self._upstream["url"] = None if address is None else address.rstrip("/")


@contextmanager
def proxy_pages(admin_paths: Collection[str], headers: Collection[str]) -> Iterator[ProxiedPages]:
    """Serve a proxy on a free port of this machine until the block ends. `headers` are never forwarded."""
    upstream: dict[str, str | None] = {"url": None}
    closed = {_plain_path(path) for path in admin_paths} | {
        _plain_path(posixpath.dirname(path)) for path in admin_paths
    }
    dropped = {*_OWN, *(name.lower() for name in headers)}
    # without a jar of its own: what one agent is given must not be sent for the next
    jar = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    with httpx2.Client(trust_env=False, timeout=TIMEOUT_S, follow_redirects=False, cookies=jar) as web:

        class Handler(_Forwarding):
            client, target, blocked, hidden = web, upstream, closed - {"/"}, frozenset(dropped)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="pages", daemon=True).start()
        try:
            yield ProxiedPages(f"http://127.0.0.1:{server.server_port}", upstream)
        finally:
            server.shutdown()
            server.server_close()


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


class _Forwarding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: otherwise each answer waits 40 ms
    client: httpx2.Client
    target: Mapping[str, str | None]
    blocked: Collection[str]
    hidden: frozenset[str]

    def _forward(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        upstream = self.target["url"]
        if length > LARGEST_BODY or upstream is None or is_admin_path(self.path, self.blocked):
            self.rfile.read(min(length, LARGEST_BODY))
            self._answer(HTTPStatus.NOT_FOUND, _PLAIN, b"There is nothing at this address.\n")
            return
        sent = {name: value for name, value in self.headers.items() if name.lower() not in self.hidden}
        path = "/" + self.path.partition("#")[0].lstrip("/")
        try:
            got = self.client.request(self.command, f"{upstream}{path}", headers=sent, content=self.rfile.read(length))
        except httpx2.HTTPError:
            self._answer(HTTPStatus.BAD_GATEWAY, _PLAIN, b"The site does not answer.\n")
            return
        own = f"http://{self.headers.get('host') or ''}"
        given = [(name, value) for name, value in got.headers.multi_items() if name.lower() not in _OWN]
        kept = [(name, value.replace(upstream, own)) for name, value in given]
        body = got.content
        if str(got.headers.get("content-type", "")).startswith(_TEXT):
            body = body.replace(upstream.encode(), own.encode())
        self._answer(got.status_code, kept, body)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = _forward  # noqa: N815 (the server's names)

    def _answer(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the server's name)
        """Say nothing of single requests."""
