"""Base success rates of the plain plans, for every task of every site. `python -m benchmarks.base_rates`.

Sites run in this process, without ports or clocks, so the counts are reproducible on any machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
from rich.console import Console
from rich.table import Table

from agents.envs.clients.session import Session
from agents.envs.contract import INSTANCE_HEADER
from agents.envs.provider import known_sites
from agents.executors.executor import Execution
from agents.executors.plan import execute
from agents.plans import Plan
from benchmarks.shipped import PLANS
from gate.intervals import wilson

TOKEN = "base-rates-need-no-secret"  # noqa: S105 (nothing is served)
TRAINING = tuple(range(200))
SEALED = tuple(range(10_000, 10_200))
PAGES, ADMIN = "http://pages.test", "http://admin.test"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a plan: its status, its grade, and the instance's fingerprint before and after."""

    execution: Execution
    passed: bool
    score: float
    reasons: tuple[str, ...]
    start: str
    end: str


class Room:
    """One of our sites in this process; `client` and `sessions` call its apps without a network."""

    def __init__(self, site: str, loop: asyncio.AbstractEventLoop) -> None:
        self.site = site
        self.apps = known_sites()[site].build(PAGES, TOKEN)
        self._loop = loop
        self._admin = httpx2.ASGITransport(app=self.apps.admin)
        self._pages = httpx2.ASGITransport(app=self.apps.pages)
        self.client = httpx2.Client(
            base_url=ADMIN, headers={"X-Env-Admin": TOKEN}, transport=httpx2.MockTransport(self._relayed_admin)
        )

    def session(self, url: str) -> Session:
        """Open a session on an instance."""
        return Session(url, transport=httpx2.MockTransport(self._relayed_pages))

    def play(self, task: str, plan: Plan, seed: int, repeat: int = 0) -> Outcome:
        """Run a plan on a new instance."""
        made = self.client.post("/__env__/reset", json={"seed": seed, "repeat": repeat}).json()
        named = {INSTANCE_HEADER: made["instance"]}
        start = self.client.get("/__env__/state", headers=named).json()["fingerprint"]
        with self.session(made["url"]) as session:
            execution = execute(plan, session, max_steps=40)
        graded = self.client.get("/__env__/oracle", params={"task_id": task}, headers=named).json()
        end = self.client.get("/__env__/state", headers=named).json()["fingerprint"]
        self.client.post("/__env__/close", headers=named)
        return Outcome(execution, graded["passed"], graded["score"], tuple(graded["reasons"]), start, end)

    def _relayed_admin(self, request: httpx2.Request) -> httpx2.Response:
        return self._loop.run_until_complete(_answered(self._admin, request))

    def _relayed_pages(self, request: httpx2.Request) -> httpx2.Response:
        return self._loop.run_until_complete(_answered(self._pages, request))


@contextmanager
def room_of(site: str) -> Iterator[Room]:
    """Yield a site that runs in this process."""
    loop = asyncio.new_event_loop()
    try:
        room = Room(site, loop)
        yield room
        room.client.close()
    finally:
        loop.close()


async def _answered(transport: httpx2.ASGITransport, request: httpx2.Request) -> httpx2.Response:
    asked = httpx2.Request(request.method, request.url, headers=request.headers, content=request.read())
    answer = await transport.handle_async_request(asked)
    return httpx2.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


def passed(site: str, seeds: Sequence[int], repeat: int = 0) -> dict[str, int]:
    """Number of seeds at which the plain plan passes, for each task of a site."""
    tasks = [task.task_id for task in known_sites()[site].tasks]
    counts = dict.fromkeys(tasks, 0)
    with room_of(site) as room:
        for seed in seeds:
            for task in tasks:
                counts[task] += room.play(task, PLANS[task], seed, repeat).passed
    return counts


def main() -> None:
    """Measure every task on training and sealed seeds, and print the table and the JSON line."""
    grid = Table(title="base success of the plain plans, 95 % Wilson intervals", title_justify="left")
    for column in ("task", "cluster", f"training, {len(TRAINING)} seeds", f"sealed, {len(SEALED)} seeds"):
        grid.add_column(column)
    figures: dict[str, float] = {}
    for site, kind in known_sites().items():
        training, sealed = passed(site, TRAINING), passed(site, SEALED)
        for task in kind.tasks:
            rates = rated(training[task.task_id], len(TRAINING)), rated(sealed[task.task_id], len(SEALED))
            grid.add_row(task.task_id, task.cluster, *rates)
            figures[task.task_id] = training[task.task_id] / len(TRAINING)
    Console(width=130, file=sys.stdout).print(grid)
    print(json.dumps({"name": "base-rates", "figures": figures, "targets": {}, "missed": []}))


def rated(count: int, runs: int) -> str:
    """Format a rate with its 95 % interval, as in the documentation."""
    interval = wilson(count, runs)
    return f"{count / runs:.3f} ({interval.low / 1e6:.3f} to {interval.high / 1e6:.3f})"


if __name__ == "__main__":
    main()
