"""A small HTTP server on this machine, for what stands before sites, actions and models: whole bodies, in threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

LARGEST_BODY: Final = 16 * 2**20
PLAIN: Final = (("content-type", "text/plain"),)
BYTES: Final = "latin-1"
"""What the bytes of headers are read as, so that none is lost."""

_POLL_S: Final = 0.05
_LONGEST_LINE: Final = 65_536
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class _BadBody(Exception):
    """The body of a request cannot be read: the status says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


def _natural(text: str, base: int) -> int:
    """A length. Raises _BadBody."""
    try:
        found = int(text, base)
    except ValueError:
        found = -1
    if found < 0:
        raise _BadBody(HTTPStatus.BAD_REQUEST)
    return found


class PageHandler(BaseHTTPRequestHandler):
    """Reads and answers whole bodies, on connections that stay open, and says nothing of single requests."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: otherwise each answer waits 40 ms

    largest = LARGEST_BODY

    def read_body(self) -> bytes | None:
        """The body of the request; None if it is too long, cut off, or of no known length: then this is answered."""
        try:
            if "chunked" in self.headers.get("transfer-encoding", "").lower():
                return b"".join(self._chunks())
            return self._read(_natural(self.headers.get("content-length") or "0", 10))
        except _BadBody as problem:
            self.close_connection = True
            self.answer(problem.status, (*PLAIN, ("connection", "close")), b"That body cannot be taken.\n")
            return None

    def _chunks(self) -> Iterator[bytes]:
        whole = 0
        while size := _natural(self._line().partition(";")[0], 16):
            whole += size
            yield self._read(size, whole)
            self._line()
        while self._line():
            pass  # trailers

    def _line(self) -> str:
        line = self.rfile.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise _BadBody(HTTPStatus.BAD_REQUEST)
        return line.strip().decode(BYTES)

    def _read(self, size: int, whole: int = 0) -> bytes:
        """So many bytes of a body that has `whole` with them."""
        if max(size, whole) > self.largest:
            raise _BadBody(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        found = self.rfile.read(size)
        if len(found) < size:
            raise _BadBody(HTTPStatus.BAD_REQUEST)
        return found

    def handle_expect_100(self) -> bool:
        """See BaseHTTPRequestHandler. Sends it at once."""
        is_on = super().handle_expect_100()
        self.wfile.flush()
        return is_on

    def answer(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send an answer with the length of its body; that of an answer to HEAD stands in its headers, if anywhere."""
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" and status not in _BODILESS:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status not in _BODILESS:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the server's name)
        """Say nothing of single requests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that is gone."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


@contextmanager
def serve_handler(handler: type[BaseHTTPRequestHandler], name: str, port: int = 0) -> Iterator[str]:
    """Serve on this port of this machine (0, or a port that is taken: a free one) until the block ends, in threads.

    Gives the address.
    """
    try:
        server = _Server(("127.0.0.1", port), handler)
    except OSError:
        server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), name=name, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
