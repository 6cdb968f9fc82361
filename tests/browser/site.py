"""A site of the tests' own under /i/abc/: what ours never do. It says what it was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Answer = tuple[int, Mapping[str, str], str]
FORM = """
<h1>Boats</h1><p>Two boats</p><a href="boats/7">Bayliner</a><a href="/i/abc/gone">Gone</a>
<form action="found"><label>Price: <input name="p" value=""></label>
<label for="m">Make</label><select id="m" name="m"><option>Any</option><option>Yamaha</option></select>
<label for="n">Note</label><textarea id="n" name="n">old</textarea>
<button>Search</button></form>
<form method="post" action="refuse"><button>Ask</button></form>
<form method="post" action="break"><button>Crash</button></form>
<form method="post" action="forbid"><input type="submit" value="Forbid"></form>
<form method="post" action="echo"><label>Email <input type="email" required name="e" value=""></label>
<label><input type="checkbox" name="c" value="1" checked>Sure</label><input type="hidden" name="h" value="x">
<button name="go" value="now">Send</button></form>
<form method="post" action="moved"><button>Move</button></form>
"""
PLAIN: Mapping[str, str] = {
    "": "<title>Home</title><h1>Home</h1><a href='boats'>Boats</a>",
    "boats": FORM,
    "boats/7": "<h1>Bayliner</h1><p>Blue &amp; white, 5&nbsp;m</p><table><tr><th>Make<td>Bayliner</table>",
    "found": "<h1>Found</h1>",
    "unnamed": "<form method='post' action='echo'><b id='w' hidden>Ship to</b><input name='to' aria-labelledby='w'>"
    "<input name='note' placeholder='Note'><input type='checkbox' name='ok' title='Terms'>"
    "<fieldset><legend>Payment</legend><label><input type='radio' name='pay' value='l' checked>Later</label>"
    "<label><input type='radio' name='pay' value='n'>Now</label></fieldset>"
    "<button aria-label='Order'><svg></svg></button></form>",
    "windows": "<a href='boats/7' target='_blank'>New window</a>"
    "<form><button type=button onclick=\"window.open('boats/7')\">By script</button></form>",
    "hidden": "<h1>Shown</h1><a href='gone' style='display:none'>Boat</a>"
    "<a href='gone' style='visibility:hidden'>Boat</a>"
    "<noscript><a href='gone'>Boat</a></noscript><a href='boats/7'>Boat</a>",
    "in-place": "<h1>Count</h1><form onsubmit=\"document.querySelector('h1').textContent='One'; return false\">"
    "<button>Count</button></form>",
    "keys": "<h1>Keys</h1><form action='found'><label>Name <input name='q'></label></form>"
    "<div style='height:3000px'></div><p>End</p>"
    "<script>onscroll = () => { document.querySelector('h1').textContent = 'Scrolled ' + scrollY }</script>",
    "place": "<body style='margin:0'><a href='boats/7' style='position:absolute;left:200px;top:100px'>Here</a>",
    "out": "<h1>Out</h1><form><button type=button onclick=\"location='/i/other/'\">Leave</button></form>",
    "away": "<h1>Away</h1><form><button type=button onclick=\"location='http://192.0.2.1/x'\">Leave</button></form>",
    "beside": "<h1>Beside</h1><img src='http://192.0.2.1/a.png'><img src='/shared/logo.png'>"
    "<script>fetch('http://192.0.2.1/b').catch(() => document.querySelector('h1').textContent = 'Alone')</script>",
    "hangs": "<h1>Hangs</h1><form><button type=button onclick='for (;;) {}'>Spin</button></form>",
}
NOT_FOUND: Answer = (404, {}, "<p>Page not found</p>")
ODD: Mapping[str, Answer] = {
    "refuse": (422, {}, "<p>Please tell us your name.</p>"),
    "break": (500, {}, "<p>Oops</p>"),
    "forbid": (403, {}, "<p>No</p>"),
    "busy": (503, {}, "<p>Busy</p>"),
    "often": (429, {}, "<p>Too often</p>"),
    "gateway": (502, {}, "<p>Bad gateway</p>"),
    "moved": (303, {"location": "/i/abc/found"}, ""),
    "sent-out": (302, {"location": "/i/other/"}, ""),
    "sent-away": (302, {"location": "http://192.0.2.1/"}, ""),
    "note.txt": (200, {"content-type": "text/plain"}, "a < b & c\nd"),
    "file": (200, {"content-type": "application/zip", "content-disposition": "attachment"}, "PK"),
    "login": (200, {"set-cookie": "who=alex; path=/; HttpOnly"}, "<p>Welcome</p>"),
}


@dataclass
class OwnSite:
    """A running one: where it is, what it was asked for, and what stops it from answering `slow`."""

    port: int
    asked: list[tuple[str, str, Mapping[str, str], str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}/i/abc/"

    def paths(self) -> list[str]:
        """Methods and addresses, in order."""
        return [f"{method} {path}" for method, path, _, _ in self.asked]

    def answer(self, path: str, body: str, cookies: str) -> Answer:
        """What is at a path under the root."""
        name = path.partition("?")[0]
        if name == "echo":
            pairs = sorted((key, value) for key, values in parse_qs(body, True).items() for value in values)
            return 200, {}, f"<p>{pairs}</p>"
        if name == "me":
            return 200, {}, "<p>You are alex</p>" if "who=alex" in cookies else "<p>Please log in</p>"
        if name == "slow":
            self.released.wait()
        if name in PLAIN:
            return 200, {}, PLAIN[name]
        return ODD.get(name, NOT_FOUND)


@contextmanager
def own_site() -> Iterator[OwnSite]:
    """Serve it on a free port."""
    site = OwnSite(0)

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            if self.path == "/favicon.ico":
                status, headers, content = NOT_FOUND
            else:
                site.asked.append((self.command, self.path, dict(self.headers), body))
                cookies = self.headers.get("cookie", "")
                inside = self.path.startswith("/i/abc/")
                status, headers, content = (
                    site.answer(self.path.removeprefix("/i/abc/"), body, cookies) if inside else NOT_FOUND
                )
            self.send_response(status)
            for key, value in {"content-type": "text/html; charset=utf-8", **headers}.items():
                self.send_header(key, value)
            sent = content.encode()
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A browser hangs up when it has seen enough."""

    with Server(("127.0.0.1", 0), Answering) as server:
        site.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield site
        finally:
            site.released.set()
            server.shutdown()
            thread.join()
