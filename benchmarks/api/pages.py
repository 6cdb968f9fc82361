"""The first page of the dashboard, over a log and over one that is a hundred times longer."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx2

from benchmarks.log.server import Server
from benchmarks.report import Target, at_most
from benchmarks.scale.__main__ import controller
from benchmarks.scale.planting import plant

from .processes import Program
from .services import serving

RATIO = "first page of the dashboard, longer log / shorter log"
TARGETS: dict[str, Target] = {RATIO: at_most(2)}
_LOGS = ("shorter", "longer")
_VISITOR = re.compile(r'name="visitor" value="([^"]+)"')


def measure_pages(server: Server, folder: Path, lengths: tuple[int, int], repeats: int) -> dict[str, float]:
    """Milliseconds of the page over logs of both lengths, asked in turns, and their ratio."""
    figures: dict[str, float] = {}
    programs: list[Program] = []
    asked: dict[str, Callable[[], None]] = {}
    try:
        for log, events in zip(_LOGS, lengths, strict=True):
            house = plant(server, log, events, partial(controller))
            figures[f"dashboard, {log} log: events"] = house.store.head()
            house.close()
            program, token = serving(server, folder, log)
            programs.append(program)
            program.start()
            asked[log] = _visitor(program, token)
            asked[log]()  # what a process reads once, it has read now
        took: dict[str, list[float]] = {log: [] for log in _LOGS}
        for _ in range(repeats):
            for log, ask in asked.items():
                began = time.perf_counter()
                ask()
                took[log].append(1000 * (time.perf_counter() - began))
    finally:
        for program in programs:
            program.stop()
    medians = {log: statistics.median(each) for log, each in took.items()}
    figures |= {f"first page of the dashboard, {log} log, ms": medians[log] for log in _LOGS}
    return figures | {RATIO: medians["longer"] / medians["shorter"]}


def _visitor(program: Program, token: str) -> Callable[[], None]:
    """Sign in; what asks for the page."""
    client = httpx2.Client(base_url=program.url, timeout=120, trust_env=False)
    form = client.get("/ui/sign-in").raise_for_status()
    found = _VISITOR.search(form.text)
    if found is None:
        raise ValueError("the page for signing in has no field named visitor")
    client.post("/ui/sign-in", data={"token": token, "visitor": found[1]}, headers={"Sec-Fetch-Site": "same-origin"})

    def ask() -> None:
        answer = client.get("/ui/").raise_for_status()
        if "Overview" not in answer.text:
            raise ValueError(f"the first page is another one: {answer.url}")

    return ask
