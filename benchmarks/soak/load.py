"""The load on a service: runs of other agents are appended, and every kind of page is read. Counts what is answered."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle

import httpx2

from benchmarks.made import entries_of_run

PAGES = (
    *("/v1/runs?limit=20", "/v1/events?limit=100", "/v1/outcomes?limit=20", "/v1/rewrites", "/v1/hints", "/v1/costs"),
    *("/v1/champion/history", "/v1/failure-clusters", "/v1/environments", "/v1/courses", "/v1/datasets", "/healthz"),
    *(
        "/metrics",
        "/v1/runs?status=missing&limit=5",
        "/v1/events?after=50&limit=5&type=RunStarted",
        "/v1/taint/erasures",
    ),
    *("/v1/benchmarks", "/v1/verdicts?limit=20", "/v1/checkpoints", "/v1/slices", "/v1/substrates", "/v1/diff?from=1"),
)
FOLLOWED = "/v1/events/stream?after=0"
"""The stream of events, of which a client reads the beginning and hangs up."""
_LINES = 50
_UNSEEN = frozenset({404, 422})
"""What a predict or a slice that cannot be is answered with: the service is up, and its caller is told why."""
ASKED: tuple[tuple[str, dict[str, object]], ...] = (
    ("/v1/slices", {"query": {"kind": "grpo", "group": "ext-soak0-no-such-group"}}),
    ("/v1/predict", {"environment": "marketplace", "task": "marketplace.no_such_task"}),
)
"""Bodies that are refused after the log was read, so that they leave the log as it is."""
_BUSY = frozenset({429, 503})
_WAIT_S = 0.5


@dataclass
class Load:
    """Clients of one service. `answers` counts statuses, and `none` where no answer came."""

    url: str
    token: str
    rate: float
    """Requests a second of each client."""
    answers: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, writers: int, readers: int) -> None:
        """Start so many clients of each kind."""
        for number in range(writers):
            self._begin(lambda client, number=number: self._write(client, number))  # type: ignore[misc]
        for _ in range(readers):
            self._begin(self._read)

    def stop(self) -> None:
        """End all clients."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _begin(self, work: Callable[[httpx2.Client], None]) -> None:
        def run() -> None:
            headers = {"Authorization": f"Bearer {self.token}"}
            with httpx2.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False) as client:
                work(client)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _write(self, client: httpx2.Client, number: int) -> None:
        for body in _bodies(f"ext-soak{number}"):
            while not self._over.is_set() and self._ask(client, "POST", "/v1/events", body) in _BUSY:
                self._over.wait(_WAIT_S)
            if self._over.wait(1 / self.rate):
                return

    def _read(self, client: httpx2.Client) -> None:
        for page in cycle((*PAGES, FOLLOWED, *ASKED)):
            if page == FOLLOWED:
                self._follow(client)
            elif isinstance(page, str):
                self._ask(client, "GET", page, None)
            else:
                address, body = page
                self._ask(client, "POST", str(address), body, _UNSEEN)
            if self._over.wait(1 / self.rate):
                return

    def _follow(self, client: httpx2.Client) -> None:
        """Read the first lines of the stream and hang up."""
        try:
            with client.stream("GET", FOLLOWED) as answer:
                for number, _line in enumerate(answer.iter_lines(), start=1):
                    if number >= _LINES or self._over.is_set():
                        break
        except httpx2.HTTPError as problem:
            self._count("none", f"GET {FOLLOWED}: {type(problem).__name__}")
            return
        self._count(str(answer.status_code), None)

    def _ask(
        self, client: httpx2.Client, method: str, path: str, body: object, expected: frozenset[int] = frozenset()
    ) -> int:
        """The status of one request; 503 if no answer came."""
        try:
            answer = client.request(method, path, json=body)
        except httpx2.HTTPError as problem:
            self._count("none", f"{method} {path}: {type(problem).__name__}")
            return 503
        unexpected = answer.is_error and answer.status_code not in _BUSY | expected
        self._count(str(answer.status_code), f"{method} {path}: {answer.text[:300]}" if unexpected else None)
        return answer.status_code

    def _count(self, what: str, defect: str | None) -> None:
        with self._lock:
            self.answers[what] += 1
            if defect is not None and what != "none":
                self.defects.append(f"{time.strftime('%H:%M:%S')} {what} {defect}")


def _bodies(prefix: str) -> Iterator[dict[str, object]]:
    """Bodies of appends, run by run, without end; a retry has the same key."""
    number = 0
    while True:
        for entry in entries_of_run(number, prefix):
            if entry.stream.startswith("run/"):
                events = [{"type": kind, **payload} for kind, payload in entry.events]
                yield {"stream": entry.stream, "key": entry.key, "expect": entry.expect, "events": events}
        number += 1
