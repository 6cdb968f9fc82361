"""A site that somebody else could have built: one instance, one port, and a switch for each way of speaking.

`python -m tests.foreign_site '{"seeding": "seed", ...}'` serves it; the token is in ENV_ADMIN_TOKEN.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from agents.envs.command import Command

ROOT = Path(__file__).parents[1]
TOKEN = "a foreign site's token"
TASK = "BT01_reveal_two_cheapest"
BOOT_SEED = 42
BOATS = 30


@dataclass(frozen=True, slots=True)
class Speech:
    """How the site speaks; the defaults are those that our contract asks for, as far as one instance can."""

    seeding: Literal["reset", "seed", "ignored", "forgetful"] = "reset"
    mutations: bool = True
    operation: Literal["operation", "op"] = "operation"
    at: Literal["none", "ts", "occurred_at"] = "none"
    payload: Literal["object", "string"] = "object"
    since: Literal["id", "ignored", "time"] = "id"
    ids: bool = True
    newest_first: bool = False
    refuses: int = 401
    unknown: int = 200
    own_row: bool = False
    facets: bool = True
    html_404: bool = False
    preview: str | None = None
    introduced: bool = False
    """True if health says the site's name and its task."""

    def command(self, **more: Any) -> Command:
        from agents.envs.command import Command  # noqa: PLC0415 (the site itself starts without it)

        words = (sys.executable, "-m", "tests.foreign_site", json.dumps(asdict(self)))
        return Command(words, variables={"ENV_ADMIN_TOKEN": TOKEN}, folder=ROOT, **more)


@dataclass
class Harbour:
    """What the site holds."""

    speech: Speech
    seed: int = BOOT_SEED
    seedings: int = 0
    prices: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def build(self, seed: int) -> None:
        drawn = random.Random(f"harbour {seed}")  # noqa: S311 (a seed's data)
        self.seed, self.rows = seed, []
        self.prices = {str(1000 + n): drawn.randrange(1_000, 90_000) for n in range(BOATS)}
        if self.speech.own_row:
            self.record("env_reset", None, {})

    def record(self, operation: str, boat: str | None, payload: dict[str, Any]) -> None:
        row: dict[str, Any] = {self.speech.operation: operation, "target_type": "boat", "target_id": boat}
        row["payload"] = json.dumps(payload) if self.speech.payload == "string" else payload
        if self.speech.ids:
            row["id"] = len(self.rows) + 1
        if self.speech.at == "ts":
            row["ts"] = time.time()
        if self.speech.at == "occurred_at":
            row["occurred_at"] = "2026-01-15T09:00:00Z"
        self.rows.append(row)

    @property
    def right(self) -> set[str]:
        return set(sorted(self.prices, key=lambda boat: (self.prices[boat], boat))[:2])

    def grade(self) -> dict[str, Any]:
        revealed = {row["target_id"] for row in self.rows if row[self.speech.operation] == "phone_revealed"}
        hits, misses = len(revealed & self.right), len(revealed - self.right)
        precision = hits / (hits + misses) if revealed else 0.0
        score = round(2 * precision / (precision + 1), 4) if hits else 0.0
        passed = hits == 2 and misses == 0
        reasons = [] if passed else [f"{hits} of 2, and {misses} beside them"]
        return {"passed": passed, "score": score, "reasons": reasons, "diff": {"right": sorted(self.right)}}

    def listed(self, since: str | None) -> list[dict[str, Any]]:
        rows = list(reversed(self.rows)) if self.speech.newest_first else self.rows
        number = float(since) if since else 0.0
        match self.speech.since:
            case "id":
                return [row for row in rows if row.get("id", 1) > number]
            case "time":
                return [row for row in rows if row["ts"] >= number]
            case "ignored":
                return rows

    def state(self) -> dict[str, Any]:
        told: dict[str, Any] = {"seed": BOOT_SEED, "now": time.time(), "counts": {"boats": BOATS}}
        if self.speech.facets:
            told["facets"] = {"dear": sum(self.prices.values()), "cheap": min(self.prices.values())}
        return {**told, "recent_audit": self.rows[-50:]}


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: otherwise each answer waits 40 ms
    harbour: Harbour
    token: str
    turn = threading.Lock()

    def do_GET(self) -> None:
        self._serve({"health": self._health, "state": self._state, "oracle": self._oracle, "mutations": self._changes})

    def do_POST(self) -> None:
        self._serve({"reset": self._reset, "seed": self._seed})

    def _serve(self, calls: dict[str, Callable[[dict[str, str]], None]]) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.body = self.rfile.read(length)
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.turn:
            if not parts.path.startswith("/__env__/"):
                self._page(parts.path)
                return
            operation = parts.path.removeprefix("/__env__/")
            if operation in self._absent() or operation not in {*calls, "seed", "reset"}:
                self._missing()
            elif operation not in calls:
                self._say({"detail": "Method Not Allowed"}, 405)
            elif operation != "health" and self.headers.get("X-Env-Admin") != self.token:
                self._say({"error": "admin token required"}, self.harbour.speech.refuses)
            else:
                calls[operation](query)

    def _absent(self) -> set[str]:
        speech = self.harbour.speech
        absent = set() if speech.mutations else {"mutations"}
        return absent if speech.seeding in ("seed", "forgetful") else {*absent, "seed"}

    def _missing(self) -> None:
        if self.harbour.speech.html_404:
            self._send(b"<!doctype html><h1>Not Found</h1>", "text/html; charset=utf-8", 404)
        else:
            self._say({"detail": "Not Found"}, 404)

    def _health(self, _: dict[str, str]) -> None:
        told: dict[str, Any] = {"ok": True, "seed": BOOT_SEED, "now": time.time(), "boot_time": 0.25}
        if self.harbour.speech.introduced:
            told |= {"site": "harbour", "tasks": [{"task_id": TASK, "instruction": "reveal the two cheapest"}]}
        self._say(told)

    def _state(self, _: dict[str, str]) -> None:
        self._say(self.harbour.state())

    def _oracle(self, query: dict[str, str]) -> None:
        task = query.get("task_id")
        if task == TASK:
            self._say({**self.harbour.grade(), "task_id": task})
            return
        reason = f"no oracle registered for task_id={task!r}"
        self._say({"passed": False, "score": 0.0, "reasons": [reason], "diff": {}}, self.harbour.speech.unknown)

    def _changes(self, query: dict[str, str]) -> None:
        self._say({"mutations": self.harbour.listed(query.get("since"))})

    def _reset(self, _: dict[str, str]) -> None:
        takes = self.harbour.speech.seeding == "reset"
        self.harbour.build(json.loads(self.body or b"{}").get("seed", BOOT_SEED) if takes else BOOT_SEED)
        self._say({"ok": True})

    def _seed(self, _: dict[str, str]) -> None:
        self.harbour.seedings += 1
        seed = json.loads(self.body)["seed"]
        forgets = self.harbour.speech.seeding == "forgetful" and self.harbour.seedings > 2
        self.harbour.build(BOOT_SEED if forgets else seed)
        self._say({"ok": True, "seed": seed})

    def _page(self, path: str) -> None:
        boat = path.removeprefix("/boats/").removesuffix("/reveal")
        if self.command == "POST" and boat in self.harbour.prices:
            self.harbour.record("phone_revealed", boat, {"price": self.harbour.prices[boat]})
            self._send(b"<p>Phone number: 555 0100</p>", "text/html")
        elif self.command == "GET" and path in ("/", "/boats"):
            self._send(self._boats().encode(), "text/html")
        else:
            self._missing()

    def _boats(self) -> str:
        return "".join(
            f'<form method="post" action="/boats/{boat}/reveal"><p>{boat}: {price}</p>'
            f"<button>Show the number of {boat}</button></form>"
            for boat, price in self.harbour.prices.items()
        )

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


def main() -> None:
    Site.harbour = Harbour(Speech(**json.loads(sys.argv[1])))
    Site.token = os.environ["ENV_ADMIN_TOKEN"]
    Site.harbour.build(BOOT_SEED)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    print(f"Serving on http://127.0.0.1:{server.server_port}/ until it is stopped", flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
