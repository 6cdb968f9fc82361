"""A site as others build them: one instance, seeded only when it starts, no labels, and its admin surface on its port.

`python -m tests.chandlery PORT` serves it; the seed is in SEED, the token in ENV_ADMIN_TOKEN. Payloads are JSON in a
string, changes are an audit list under other names, a reset ignores its body, an unknown task is answered with status
200 and the score 0, and half of a task is worth half of the score without being passed.
"""

from __future__ import annotations

import json
import os
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TASK = "T01_order_rope"
ROPES, LENGTHS = ("Hemp", "Manila", "Dyneema", "Sisal"), (10, 20, 40)


class Chandlery(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: otherwise each answer waits 40 ms
    seed, token = int(os.environ.get("SEED", "42")), os.environ.get("ENV_ADMIN_TOKEN", "")
    audit: list[dict[str, Any]] = []  # noqa: RUF012 (the process is the instance)

    @property
    def prices(self) -> dict[str, int]:
        drawn = random.Random(f"chandlery {self.seed}")  # noqa: S311 (a seed's data)
        return {f"{rope}-{length}": drawn.randrange(5, 500) for rope in ROPES for length in LENGTHS}

    def do_GET(self) -> None:
        parts, told = urlsplit(self.path), {name: each[0] for name, each in parse_qs(urlsplit(self.path).query).items()}
        if parts.path.startswith("/__env__/"):
            self._admin(parts.path.removeprefix("/__env__/"), told)
        elif parts.path in {"/", "/shop", "/basket"}:
            self._page(parts.path, told)
        else:
            self._send(b"<h1>Not Found</h1>", "text/html", 404)

    def do_POST(self) -> None:
        sent = parse_qs(self.rfile.read(int(self.headers.get("content-length") or 0)).decode())
        if self.path == "/__env__/reset":
            self._admin("reset", {})
        elif self.path == "/order" and sent.get("agree") == ["on"]:
            for operation in ("ordered", "paid") if sent.get("pay") == ["now"] else ("ordered",):
                row = {"op": operation, "target_type": "rope", "target_id": sent["rope"][0]}
                payload = json.dumps({"to": sent.get("to", [""])[0]})
                self.audit.append({**row, "id": len(self.audit) + 1, "ts": 1.5, "payload": payload})
            self._send(b"<p>It will be sent.</p>", "text/html")
        else:
            self._send(b"<p>Please agree to the terms.</p>", "text/html", 422)

    def _admin(self, call: str, told: dict[str, str]) -> None:
        if call == "health":
            self._say({"ok": True, "seed": 42})
        elif self.headers.get("X-Env-Admin") != self.token:
            self._say({"error": "admin token required"}, 403)
        elif call == "reset":
            self.audit.clear()
            self._say({"ok": True})
        elif call == "state":
            self._say(
                {
                    "seed": self.seed,
                    "counts": {"ropes": len(self.prices)},
                    "sum": sum(self.prices.values()),
                    "recent_audit": self.audit[-50:],
                }
            )
        elif call == "audit":
            self._say({"audit": self.audit})
        elif call == "oracle":
            self._say(self._grade(told.get("task_id", "")))
        else:
            self._say({"detail": "Not Found"}, 404)

    def _grade(self, task: str) -> dict[str, Any]:
        if task != TASK:
            return {
                "passed": False,
                "score": 0.0,
                "reasons": [f"no oracle registered for task_id={task!r}"],
                "diff": {},
            }
        right = min(self.prices, key=lambda rope: (self.prices[rope], rope))
        done = [each["op"] for each in self.audit if each["target_id"] == right]
        passed = done == ["ordered", "paid"] and len(self.audit) == len(done)
        return {"passed": passed, "score": 1.0 if passed else 0.5 if "ordered" in done else 0.0, "reasons": []}

    def _page(self, path: str, told: dict[str, str]) -> None:
        home = f"http://{self.headers['host']}"
        body = f'<a href="{home}/shop">Shop</a>'
        if path == "/shop":
            ropes = sorted(self.prices, key=lambda rope: (self.prices[rope], rope))
            body += "".join(
                f'<p><a href="/basket?rope={rope}">{rope} for {self.prices[rope]}</a></p>' for rope in ropes
            )
        elif path == "/basket":
            body += f"""<form method="post" action="/order"><input type="hidden" name="rope" value="{told["rope"]}">
            <input name="to" placeholder="Ship to"> <input type="checkbox" name="agree" title="Terms">
            <div role="radiogroup" aria-label="Payment"><input type="radio" name="pay" value="later" aria-label="Later">
            <input type="radio" name="pay" value="now" aria-label="Now"></div><button>Order</button></form>"""
        self._send(body.encode(), "text/html")

    def _say(self, facts: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(facts).encode(), "application/json", status)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name above)
        """Say nothing of single requests."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Chandlery).serve_forever()
