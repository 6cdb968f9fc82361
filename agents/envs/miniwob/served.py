"""The MiniWoB++ pages on a loopback port: files as shipped, under a separate prefix for each open instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Thread

from .errors import PagesMissing

DISTRIBUTION = "miniwob"
ENTRY = "miniwob/html/core/core.js"
PREFIX = "i"
NOWHERE = "/no such file"


def pages_folder() -> Path:
    """Folder of the installed pages, found without importing the distribution. Raises PagesMissing."""
    try:
        entry = Path(str(distribution(DISTRIBUTION).locate_file(ENTRY)))
    except PackageNotFoundError as problem:
        raise PagesMissing(actual="the distribution is not installed") from problem
    if not entry.is_file():
        raise PagesMissing(actual=f"there is no file {entry}")
    return entry.parents[1]


def is_installed() -> bool:
    """True if the MiniWoB++ pages are installed."""
    try:
        pages_folder()
    except PagesMissing:
        return False
    return True


@contextmanager
def serve_pages(pages: Path, is_open: Callable[[str], bool]) -> Iterator[str]:
    """Serve the folder below `/i/<instance>/` of open instances, on a free loopback port; yields the origin."""

    class Pages(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet: otherwise each file waits 40 ms
        # The pages are UTF-8 but do not declare it.
        extensions_map = {  # noqa: RUF012 (the library's)
            **SimpleHTTPRequestHandler.extensions_map,
            ".html": "text/html; charset=utf-8",
            ".js": "text/javascript; charset=utf-8",
        }

        def handle(self) -> None:
            with suppress(ConnectionError):  # a closed page drops its connections
                super().handle()

        def translate_path(self, path: str) -> str:
            parts = [*path.split("/", maxsplit=3), "", "", ""]
            is_known = parts[1] == PREFIX and is_open(parts[2])
            return super().translate_path(f"/{parts[3]}" if is_known else NOWHERE)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, directory=str(pages)))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
