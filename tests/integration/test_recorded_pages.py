"""Pages that a proxy kept are served again as they were, at another address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from agents.envs.page_proxy import PageExchange, swap_origin
from agents.envs.page_server import PageHandler, serve_handler
from agents.executors import site_record
from agents.executors.outside.recorded_headers import dated_today
from agents.executors.outside.recorded_site import RecordedSite, serve_record
from agents.executors.site_record import SiteRecord, SiteRecorder, read_site_record
from eventlog.blobs import Blob
from eventlog.errors import BlobDamaged

PICTURE = bytes(range(256))


class Shop(PageHandler):
    """Answers with its own address, with where a form came from, with what was sent, or with a picture."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        own = f"http://{self.headers['host']}"
        sent = self.read_body() or b""
        match self.path.partition("?")[0]:
            case "/picture":
                self.say(200, PICTURE, "image/png")
            case "/away":
                self.say(302, b"", "text/html", location=f"{own}/i/home")
            case "/origin":
                same = self.headers.get("origin") == own and str(self.headers.get("referer")).startswith(own)
                self.say(200 if same else 403, b"", "text/plain")
            case "/nothing":
                self.say(204, b"", "text/plain")
            case "/named":
                told = str(self.headers["cookie"]).encode("latin-1")
                self.say(200, told, "text/plain", **{"content-disposition": "filename=价格".encode().decode("latin-1")})
            case "/cookie":
                self.say(200, b"", "text/plain", **{"set-cookie": "a=1; Domain=shop.lan; Path=/"})
            case "/caf%C3%A9":
                self.say(200, b"coffee", "text/plain")
            case "/back":
                self.say(200 if own.encode() in sent else 403, sent, "text/plain")
            case "/sent":
                self.say(200, f"{len(sent)} bytes".encode(), "text/plain")
            case _:
                self.say(200, f'<a href="{own}/i/home">Grüße</a>'.encode(), "text/html; charset=utf-8")

    do_POST = do_HEAD = do_OPTIONS = do_GET  # noqa: N815 (the server's names)

    def say(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        length = {"content-length": str(len(body))} if self.command == "HEAD" else {}
        self.answer(status, {"content-type": kind, **length, **headers}.items(), body)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serve_handler(Shop, "shop") as address:
        yield address


Got = tuple[int, str, bytes, str]


def parts() -> Iterator[bytes]:
    yield b"in two"
    yield b" parts"


def ask(web: httpx2.Client, base: str, method: str, path: str, **sent: object) -> Got:
    """An answer without its address: status, type, body, and where it leads or how long it would be."""
    own = httpx2.URL(base).netloc.decode()
    told: Any = {"headers": {"origin": base, "referer": f"{base}/i/"}, **sent}
    found = web.request(method, f"{base}{path}", **told)
    body, kind = found.content.replace(own.encode(), b"HERE"), found.headers.get("content-type", "")
    length = found.headers["content-length"] if method == "HEAD" else ""
    return found.status_code, kind, body, found.headers.get("location", length).replace(own, "HERE")


def visit(web: httpx2.Client, base: str) -> list[Got]:
    return [
        ask(web, base, "GET", "/i/1/"),
        ask(web, base, "GET", f"/i/1/?back={base}/i"),
        ask(web, base, "POST", "/sent", data={"back": f"{base}/i"}),
        ask(web, base, "POST", "/sent", files={"file": b"three words here"}),
        ask(web, base, "GET", "/picture"),
        ask(web, base, "GET", "/away"),
        ask(web, base, "HEAD", "/picture"),
        ask(web, base, "POST", "/origin"),
        ask(web, base, "POST", "/sent", content=parts()),
        ask(web, base, "POST", "/back", content=f"to {base}/i"),
        ask(web, base, "GET", "/nothing"),
        ask(web, base, "OPTIONS", "/i/1/"),
        ask(web, base, "GET", "/named", headers={"cookie": "name=Grüße".encode()}),
    ]


@contextmanager
def recorded(site: str) -> Iterator[tuple[list[Got], SiteRecord]]:
    """What a visit through the proxy got, and the record of it, read from its blob."""
    recorder = SiteRecorder()
    with recorder.open_door("pages", f"{site}/i/1/", 10) as url, httpx2.Client(trust_env=False) as web:
        got = visit(web, url.removesuffix("/i/1/"))
    blob = recorder.record().blob()
    record = read_site_record(blob.digest, blob)
    assert record == recorder.record()
    assert record.urls == {"pages": url}
    yield got, record


@contextmanager
def served(record: SiteRecord) -> Iterator[tuple[RecordedSite, str, httpx2.Client]]:
    with serve_record(record) as found, httpx2.Client(trust_env=False) as web:
        assert found.urls["pages"].endswith("/i/1/")
        yield found, found.urls["pages"].removesuffix("/i/1/"), web


def test_what_was_kept_is_answered_again_at_another_address(site: str) -> None:
    with recorded(site) as (got, record), served(record) as (found, base, web):
        assert [each[0] for each in got] == [200, 200, 200, 200, 200, 302, 200, 200, 200, 200, 204, 200, 200]
        assert got[4][2] == PICTURE
        assert got[6][3] == str(len(PICTURE))
        assert visit(web, base) == got
        assert (found.list_unasked(), found.other, found.given) == ((), None, len(got))
        assert found.swap_out(found.urls["pages"]) == record.urls["pages"]


def test_requests_may_come_in_another_order_and_each_is_answered_once(site: str) -> None:
    with recorded(site) as (got, record), served(record) as (found, base, web):
        assert ask(web, base, "GET", "/picture") == got[4]
        assert ask(web, base, "GET", "/i/1/") == got[0]
        assert found.other is None
        assert ask(web, base, "GET", "/i/1/")[0] == 410
        assert ask(web, base, "POST", "/sent", data={"back": "elsewhere"})[0] == 410
        assert found.other is not None
        assert (found.other.where, found.other.actual, found.other.is_beyond) == ("request 2", ("GET /i/1/",), False)
        assert found.other.expected[0].startswith("GET /i/1/?back=")
        assert len(found.list_unasked()) == len(got) - 2


def raw(address: str, *lines: str, body: bytes = b"") -> bytes:
    """What a connection gives after a request that no client would send, until it ends."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = "\r\n".join((*lines, f"host: {host}:{port}", "connection: close", "", "")).encode("latin-1")
        connection.sendall(head + body)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        (("POST /sent HTTP/1.1", "content-length: abc"), b"", 400),
        (("POST /sent HTTP/1.1", "content-length: -1"), b"", 400),
        (("POST /sent HTTP/1.1", "content-length: 9"), b"cut", 400),
        (("POST /sent HTTP/1.1", f"content-length: {2**40}"), b"", 413),
        (("POST /sent HTTP/1.1", "transfer-encoding: chunked"), b"zz\r\n", 400),
        (("POST /sent HTTP/1.1", "transfer-encoding: chunked"), b"-1\r\n", 400),
        (("POST /sent HTTP/1.1", "transfer-encoding: chunked"), b"3\r\nab", 400),
        (("POST /sent HTTP/1.1", "transfer-encoding: chunked"), b"3\r\nabc\r\n", 400),
        (("POST /sent HTTP/1.1", "transfer-encoding: chunked"), b"ffffffffff\r\n", 413),
        (("POST /sent HTTP/1.1", "transfer-encoding: chunked"), b"3;x=1\r\nabc\r\n0\r\nt: 1\r\n\r\n", 200),
        (("GET /caf\xc3\xa9 HTTP/1.1",), b"", 200),
    ],
)
def test_a_body_that_cannot_be_taken_is_answered_and_reaches_no_site(
    site: str, lines: tuple[str, ...], body: bytes, status: int
) -> None:
    recorder = SiteRecorder()
    with recorder.open_door("pages", f"{site}/", 10) as url:
        said = raw(url.rstrip("/"), *lines, body=body)
    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    kept = recorder.record().exchanges["pages"]
    assert [each.status for each in kept] == ([status] if status == 200 else [])


def test_a_cookie_of_the_sites_domain_is_one_of_the_proxys(site: str) -> None:
    recorder = SiteRecorder()
    with recorder.open_door("pages", f"{site}/", 10) as url, httpx2.Client(trust_env=False) as web:
        assert web.get(f"{url}cookie").headers["set-cookie"] == "a=1; Path=/"


def test_origins_are_swapped_whole_in_each_form() -> None:
    old, new = "http://shop.lan", "http://127.0.0.1:7"
    for told, is_one in (
        ("http://shop.lan/x", True),
        ("http:\\/\\/shop.lan\\/x", True),
        ("next=http%3A%2F%2Fshop.lan%2Fx", True),
        ("see http://shop.lan.", True),
        ("http://shop.lan:8080/x", False),
        ("http://shop.landing/x", False),
        ("http://shop.lan.example/x", False),
    ):
        swapped = swap_origin(told, old, new)
        assert (swapped != told) == is_one, told
        assert swap_origin(swapped, new, old) == told


def test_dates_of_a_record_are_no_reason_to_ask_again() -> None:
    date, later = "Sun, 29 Nov 2026 01:00:00 GMT", "Sun, 29 Nov 2026 01:02:00 GMT"
    gone = "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
    told = [("Date", date), ("Expires", later), ("Set-Cookie", f"a=1; Expires={later}; Path=/"), ("Set-Cookie", gone)]
    assert list(dated_today(told)) == [
        ("Set-Cookie", "a=1; Path=/"),
        ("Set-Cookie", gone),
        ("cache-control", "max-age=120"),
    ]
    plain = [("Expires", "0"), ("Cache-Control", "no-store"), ("Date", date)]
    assert list(dated_today(plain)) == [("Cache-Control", "no-store")]


def test_what_differs_far_down_or_in_its_ends_alone_is_shown() -> None:
    lines = [f"line {n}" for n in range(60)]
    kept = PageExchange("POST", "/", "\n".join(lines).encode(), 200, (), b"")
    with serve_record(SiteRecord({"pages": "http://127.0.0.1:1/"}, {"pages": (kept,)})) as found:
        assert found.answer("pages", "POST", "/", "\n".join([*lines[:50], "other", *lines[51:]]).encode()) is None
        assert found.other is not None
        assert ("sent: line 50" in found.other.expected, "sent: other" in found.other.actual) == (True, True)
    with serve_record(SiteRecord({"pages": "http://127.0.0.1:1/"}, {"pages": (kept,)})) as found:
        assert found.answer("pages", "POST", "/", "\r\n".join(lines).encode()) is None
        assert found.other is not None
        assert found.other.expected != found.other.actual


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        (b"---\nname: a", b"---\nname: b", False),
        (b"--x\r\n\r\na\r\n--x--\r\n", b"--y\r\n\r\na\r\n--y--\r\n", True),
        (b"--x\r\n\r\na\r\n--x--\r\n", b"--y\r\n\r\nb\r\n--y--\r\n", False),
        (b"-- one\r\nlet", b"-- two\r\nlet", False),
    ],
)
def test_only_the_boundary_between_parts_is_no_difference(was: bytes, now: bytes, same: bool) -> None:
    kept = PageExchange("POST", "/", was, 200, (), b"")
    with serve_record(SiteRecord({"pages": "http://127.0.0.1:1/"}, {"pages": (kept,)})) as found:
        assert (found.answer("pages", "POST", "/", now) == kept) == same


def test_hosts_are_swapped_whole_and_at_once() -> None:
    record = SiteRecord({"pages": "http://127.0.0.1:12/", "model": "http://127.0.0.1:123/"}, {})
    today = {"pages": "http://127.0.0.1:123/", "model": "http://127.0.0.1:7/"}
    found = RecordedSite(record, urls=today)  # type: ignore[arg-type]  # plain keys
    assert found.swap_in("127.0.0.1:12/ 127.0.0.1%3A123 127.0.0.1:124") == "127.0.0.1:123/ 127.0.0.1%3A7 127.0.0.1:124"
    assert found.swap_out(found.swap_in("127.0.0.1:12 127.0.0.1:123")) == "127.0.0.1:12 127.0.0.1:123"


def test_a_run_of_which_too_much_would_be_kept_keeps_nothing(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_record, "LARGEST", 1000)
    with recorded(site) as (got, record):
        assert got[4][2] == PICTURE
        assert (record.is_whole, record.answers) == (False, 0)


def test_a_site_that_does_not_answer_is_kept_as_that(site: str) -> None:
    recorder = SiteRecorder()
    with recorder.open_door("pages", "http://127.0.0.1:9/", 10) as url, httpx2.Client(trust_env=False) as web:
        assert web.get(url).status_code == 502
    (kept,) = recorder.record().exchanges["pages"]
    assert kept.status == 502


@pytest.mark.parametrize("told", ["[]", "{}", "no json", '{"exchanges": {"pages": [{"sent": 1}]}}'])
def test_a_blob_that_is_no_record_is_damaged(told: str) -> None:
    with pytest.raises(BlobDamaged, match="no record of a site"):
        read_site_record("0" * 64, Blob("application/json", told.encode()))
