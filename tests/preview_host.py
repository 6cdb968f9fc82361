"""Servers for tests of sandboxes: a preview proxy before a site, and an API that answers from a recording."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

RECORDINGS = Path(__file__).parent / "recordings" / "daytona"
LOGIN = b"<!doctype html><title>Sign in</title>"
HOP = {"host", "connection", "content-length", "transfer-encoding", "content-encoding", "accept-encoding"}


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name above)
        """Say nothing of single requests."""


@contextmanager
def _serving(kind: type[_Server]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def preview_of(site_url: str, token: str) -> Iterator[str]:
    """A proxy that leads to a site who sends both headers, and everybody else to a login page."""

    class Preview(_Server):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path == "/login":
                self._send(200, {"content-type": "text/html"}, LOGIN)
            elif (self.headers["x-daytona-preview-token"], self.headers["x-daytona-skip-preview-warning"]) != (
                token,
                "true",
            ):
                self._send(307, {"content-type": "text/html", "location": "/login"}, LOGIN)
            else:
                self._pass_on(body)

        do_POST = do_GET  # noqa: N815 (http.server's names)

        def _pass_on(self, body: bytes) -> None:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            with httpx2.Client(trust_env=False) as web:
                answer = web.request(self.command, f"{site_url}{self.path}", content=body, headers=headers)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
            self._send(answer.status_code, kept, answer.content)

    with _serving(Preview) as url:
        yield url


@contextmanager
def recorded_api(name: str, previews: dict[str, str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The API of a recording: each call has to come in its turn. Gives its address and what came.

    `previews` are the addresses that stand for the ports of the recording.
    """
    text = (RECORDINGS / f"{name}.json").read_text()
    for port, url in previews.items():
        text = text.replace(f"{{preview {port}}}", url)
    left, seen = list(json.loads(text)), []

    class Api(_Server):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            if "/socket.io/" in path:
                self._send(404, {"content-type": "application/json"}, b"{}")
                return
            seen.append(
                {
                    "call": f"{self.command} {path}",
                    "key": self.headers["authorization"],
                    "body": json.loads(body) if body else None,
                }
            )
            if not left or (left[0]["method"], left[0]["path"]) != (self.command, path):
                self._send(500, {"content-type": "application/json"}, b'{"message": "not in the recording"}')
                return
            turn = left.pop(0)
            told = b"" if turn["body"] is None else json.dumps(turn["body"]).encode()
            self._send(turn["status"], {"content-type": "application/json"}, told)

        do_POST = do_DELETE = do_GET  # noqa: N815 (http.server's names)

    with _serving(Api) as url:
        yield f"{url}/api", seen
