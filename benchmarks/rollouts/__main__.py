"""`make bench-rollouts`: runs per second over HTTP and in Chromium, and the overhead of recording."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agents.envs.clients.client import EnvClient
from agents.envs.errors import BrowserMissing
from agents.envs.provider import known_sites, local_site
from agents.executors.browser import BrowserExecutor, Chromium
from agents.rollouts.play import PLAN
from api.settings import read_settings
from benchmarks.log.server import own_server, version
from benchmarks.report import Target, at_most, medians, report
from eventlog.blobs import PostgresBlobs
from eventlog.postgres import PostgresStore

from .workload import Bench

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "rollouts.md"
PROJECT = "rollouts"
SITES = ("helpdesk", "marketplace")
HTTP = (1, 4, 16)
CHROMIUM = (1, 4)
COST = "recorded / not recorded, time"
TARGETS: dict[str, Target] = {f"HTTP, {n} at once, {COST}": at_most(1.3) for n in HTTP} | {
    f"Chromium, {n} at once, {COST}": at_most(1.05) for n in CHROMIUM
}


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of runs per repeat of an arm, and number of repeats."""

    over_http: int
    in_chromium: int
    repeats: int


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Play runs on real sites, with and without recording them on a new embedded PostgreSQL."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    effort = Effort(20, 4, 1) if quick else Effort(160, 6, 3)
    with bench() as (ready, note):
        with Console(stderr=True).status("measuring: HTTP"):
            figures = over_http(ready, effort)
        left_out: dict[str, str] = {}
        try:
            with Chromium(read_settings().browser) as chromium, Console(stderr=True).status("measuring: Chromium"):
                figures |= in_chromium(ready, chromium, effort)
        except BrowserMissing as missing:
            left_out["Chromium"] = str(missing.facts["actual"])
    targets = {name: bound for name, bound in TARGETS.items() if name in figures}
    size = f"{effort.repeats} interleaved repeats of {effort.over_http} runs ({effort.in_chromium} in Chromium)"
    report(
        "rollouts",
        figures,
        targets,
        left_out=left_out,
        page=PAGE if write else None,
        note=f"{note}; medians of {size}.",
    )


@contextmanager
def bench() -> Iterator[tuple[Bench, str]]:
    """Start both sites in separate processes, and a log with durability on."""
    with ExitStack() as stack:
        server = stack.enter_context(own_server())
        server.project(PROJECT)
        engine = server.engine(PROJECT, pool_size=max(HTTP) + 4)
        stack.callback(engine.dispose)
        sites = {name: stack.enter_context(local_site(name)) for name in SITES if name in known_sites()}
        clients = {
            name: stack.enter_context(EnvClient(site.admin_url, site.admin_token)) for name, site in sites.items()
        }
        note = f"PostgreSQL {version(engine)}, fsync on, {os.cpu_count()} cores; sites {' and '.join(clients)}"
        yield Bench(clients, PostgresStore(engine), PostgresBlobs(engine)), note


def over_http(ready: Bench, effort: Effort) -> dict[str, float]:
    """Rates and recording overhead over HTTP."""
    found: dict[str, float] = {}
    for number in HTTP:
        arms = {
            kind: ready.arm(PLAN, runs=effort.over_http, max_parallel=number, recorded=kind == "recorded")
            for kind in ("not recorded", "recorded")
        }
        rates = medians(arms, effort.repeats)
        found[f"HTTP, {number} at once, runs/s"] = rates["recorded"]
        found[f"HTTP, {number} at once, {COST}"] = rates["not recorded"] / rates["recorded"]
    return found


def in_chromium(ready: Bench, chromium: Chromium, effort: Effort) -> dict[str, float]:
    """Rates and recording overhead in Chromium, with the cost of screenshots separate from the cost of storing them."""
    drawing, blind = BrowserExecutor(chromium), BrowserExecutor(chromium, pictures="none")
    found: dict[str, float] = {}
    for number in CHROMIUM:
        arms = {
            "not drawn": ready.arm(blind, runs=effort.in_chromium, max_parallel=number, recorded=False),
            "not recorded": ready.arm(drawing, runs=effort.in_chromium, max_parallel=number, recorded=False),
            "recorded": ready.arm(drawing, runs=effort.in_chromium, max_parallel=number, recorded=True),
        }
        rates = medians(arms, effort.repeats)
        found[f"Chromium, {number} at once, runs/s"] = rates["recorded"]
        found[f"Chromium, {number} at once, {COST}"] = rates["not recorded"] / rates["recorded"]
        found[f"Chromium, {number} at once, with / without screenshots, time"] = (
            rates["not drawn"] / rates["not recorded"]
        )
    return found


if __name__ == "__main__":
    typer.run(main)
