"""`make bench-first`: how long somebody waits for the first useful answer of a command and of the REST API."""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.log.server import Server, own_server, version
from benchmarks.report import at_most, report
from eventlog.transfer import import_log

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "first.md"
LOG = ROOT / "tests" / "golden" / "log.ndjson.gz"
PROJECT = "first"
COMMAND = (sys.executable, "-c", "from api.cli.main import main; main()")
LIBRARIES = (
    sys.executable,
    "-c",
    "import sqlalchemy.dialects.postgresql.psycopg, psycopg, pydantic_settings, typer, rich.table, msgspec",
)
"""What every command with a database imports."""

ANSWERS = {"champion show": ("champion", "show"), "runs list": ("runs", "list")}
ALONE = "libraries alone"
REST = "GET /v1/runs?limit=50, seconds"


def main(
    *,
    repeats: Annotated[int, typer.Option(min=3, help="How often each answer is asked for.")] = 9,
    quick: Annotated[bool, typer.Option("--quick", help="Ask three times each, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Run each command as a process of its own on a log of 652 events; print medians."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    times = 3 if quick else repeats
    with own_server() as server:
        note = _fill(server)
        found = _commands(_environment(server), times) | _rest(_environment(server), times)
    targets = {key: at_most(0.5) for key in (*(f"{name}, seconds" for name in ANSWERS), REST)}
    report("first", found, targets, page=PAGE if write else None, note=f"{note}; medians of {times}.")


def _fill(server: Server) -> str:
    server.project(PROJECT)
    owner = server.owner(PROJECT)
    events = import_log(owner, LOG)
    note = f"PostgreSQL {version(owner)}, fsync on, {os.cpu_count()} cores, a log of {events} events"
    owner.dispose()
    return note


def _environment(server: Server) -> dict[str, str]:
    own = {"FLYWHEEL_DATABASE_URL": server.app_url, "FLYWHEEL_OWNER_URL": server.owner_url, "FLYWHEEL_PROJECT": PROJECT}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **own}


def _commands(environment: Mapping[str, str], times: int) -> dict[str, float]:
    """Seconds and processor seconds of each command, and its ratio to those of the libraries alone.

    All are asked in turns, so that a busy machine slows each alike; the first turn warms up.
    """
    asked = {name: (*COMMAND, *words) for name, words in ANSWERS.items()} | {ALONE: LIBRARIES}
    turns = [{name: _timed(words, environment) for name, words in asked.items()} for _ in range(times + 1)][1:]
    found: dict[str, float] = {}
    for name in asked:
        found[f"{name}, seconds"] = statistics.median(turn[name][0] for turn in turns)
        found[f"{name}, processor seconds"] = statistics.median(turn[name][1] for turn in turns)
    ratios = {
        f"{name}, processor seconds to those of the libraries alone": found[f"{name}, processor seconds"]
        / found[f"{ALONE}, processor seconds"]
        for name in ANSWERS
    }
    return found | ratios


def _timed(words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, env=environment, cwd=ROOT, check=True, capture_output=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rest(environment: Mapping[str, str], times: int) -> dict[str, float]:
    """Seconds of a page, and from the start of `serve` to the first one."""
    issued = subprocess.run(
        (*COMMAND, "token", "issue", "bench"), env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    began = time.perf_counter()
    with subprocess.Popen(
        (*COMMAND, "serve", "--port", "0"), env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            page = _page_of(serving, issued.stdout.strip())
            page()
            first = time.perf_counter() - began
            taken = [_seconds(page) for _ in range(times)]
        finally:
            serving.terminate()
    return {REST: statistics.median(taken), "serve, seconds from its start to the first page": first}


def _page_of(serving: subprocess.Popen[str], token: str) -> Callable[[], bytes]:
    """Reads a page from a server, whose address is in its output."""
    told = iter(serving.stdout or ())
    address = next(found[0] for line in told if (found := re.search(r"http://[\d.]+:\d+", line)))
    request = urllib.request.Request(  # noqa: S310 our own address
        f"{address}/v1/runs?limit=50", headers={"Authorization": f"Bearer {token}"}
    )

    def read() -> bytes:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 our own address
            body: bytes = answer.read()
            return body

    return read


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    typer.run(main)
