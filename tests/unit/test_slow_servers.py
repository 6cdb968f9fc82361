"""A server that takes its time: it is waited for and said so, and given up with the way out."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import httpx2
import msgspec
import pytest

from api.cli import progress_lines, sources
from api.cli.errors import ServerSlow
from api.cli.sources import ServerSource, open_server

BODY = b"x" * 2**20


class SlowServer:
    """Answers once it may: `go_on`."""

    def __init__(self) -> None:
        go_on = self.go_on = Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                go_on.wait(60)
                self.send_response(200)
                self.send_header("Content-Length", str(len(BODY)))
                self.end_headers()
                self.wfile.write(BODY)

            def log_message(self, *_given: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowServer]:
    monkeypatch.setenv("FLYWHEEL_TOKEN", "fw_any")
    server = SlowServer()
    yield server
    server.go_on.set()
    server.server.shutdown()
    server.server.server_close()


def test_while_rows_are_waited_for_a_line_says_so_every_few_seconds(
    slow: SlowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        slow.go_on.set()

    monkeypatch.setattr(progress_lines, "PAUSE_S", 0.01)
    monkeypatch.setattr(sources, "print_line", hear)
    with open_server(slow.address) as source:
        source.download("/v1/rows", "application/x-ndjson", tmp_path / "rows")
    assert said[0].startswith(f"waiting for {slow.address} 0:00:0")
    assert (tmp_path / "rows").read_bytes() == BODY


class Names(msgspec.Struct):
    """A page of names."""

    names: tuple[str, ...]
    next: str | None


def test_a_list_of_many_quick_pages_is_waited_for_as_one_and_its_items_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, said = Event(), list[str]()

    def hear(text: str) -> None:
        said.append(text)
        if "2 names are here" in text:
            told.set()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.params.get("after") == "b":
            assert told.wait(60)
            return httpx2.Response(200, json={"names": ["c"], "next": None})
        return httpx2.Response(200, json={"names": ["a", "b"], "next": "b"})

    monkeypatch.setattr(progress_lines, "PAUSE_S", 0.01)
    monkeypatch.setattr(sources, "print_line", hear)
    with httpx2.Client(base_url="http://a", transport=httpx2.MockTransport(answer)) as http:
        found, following = ServerSource("http://a", http, None).pages(Names, "names", "/v1/names", None, None, None)
    assert (found, following) == (["a", "b", "c"], None)
    assert all(line.startswith("waiting for http://a 0:00:") for line in said)


def test_a_quick_answer_is_not_talked_about(slow: SlowServer, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(sources, "print_line", said.append)
    slow.go_on.set()
    with open_server(slow.address) as source:
        assert source.fetch("/v1/champion", {}, {}).content == BODY
    assert said == []


def test_a_server_that_sends_nothing_is_given_up_with_the_way_out(
    slow: SlowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_SILENT_S", 0.05)
    with open_server(slow.address) as source:
        for ask in (
            lambda: source.fetch("/v1/runs", {}, {}),
            lambda: source.download("/v1/rows", "application/x-ndjson", tmp_path / "rows"),
        ):
            with pytest.raises(ServerSlow, match="run the command where the log is") as caught:
                ask()
            assert caught.value.facts["server"] == slow.address
