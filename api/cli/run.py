"""`flywheel run`: the controller, and what came of it in one table."""

from __future__ import annotations

import os
import shutil
import sys
import time
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from agents.envs.client import EnvClient
from agents.envs.provider import Site, local_site, site_at
from eventlog.events import SftQuery
from projections.checkpoints import CHECKPOINTS

from .. import datasets
from ..admitting import admit_at_first_use
from ..decide import Course
from ..house import House
from ..loop import Controller
from ..summary import Summary, summarise
from .output import AsJson, TerminalReporter, emit_json, facts, opened, say


class Loop(StrEnum):
    """Which loop to run."""

    FAST = "fast"


def run(
    loop: Annotated[Loop, typer.Option(help="Which loop: fast improves memory.")] = Loop.FAST,
    site: Annotated[str, typer.Option(help="The simulated site to learn on.")] = "marketplace",
    url: Annotated[str | None, typer.Option(help="A site that already runs: its page address.")] = None,
    admin_url: Annotated[
        str | None, typer.Option(help="Its admin address; the token is in FLYWHEEL_ENV_ADMIN_TOKEN.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="At most so many sweeps.")] = 4,
    seeds: Annotated[int, typer.Option(min=1, max=500, help="Fresh seeds a sweep.")] = 12,
    max_parallel: Annotated[int, typer.Option(min=1, max=64, help="Runs side by side; 1 is sequential.")] = 4,
    as_json: AsJson = False,
) -> None:
    """Go round the loop: sweep, failures, rewrites, wins, gate, champion. Continues where the log stands."""
    began = time.monotonic()
    course = Course(seeds_per_round=seeds, max_rounds=rounds, max_parallel=max_parallel)
    with opened() as house:
        token = house.settings.env_admin_token
        if url is not None or admin_url is not None:
            if url is None or admin_url is None or token is None:
                raise typer.BadParameter("a running site needs --url, --admin-url and FLYWHEEL_ENV_ADMIN_TOKEN")
            running = site_at(site, url=url, admin_url=admin_url, admin_token=token.get_secret_value())
            why = _go(house, running, course)
        else:
            with local_site(site) as local:
                why = _go(house, local, course)
        summary = summarise(house, site, loop.value, why, time.monotonic() - began)
    emit_json(summary.plain()) if as_json else _show(summary)


def _go(house: House, site: Site, course: Course) -> str:
    reporter = TerminalReporter()
    with EnvClient(site.admin_url, site.admin_token) as client:
        # A site that runs elsewhere is admitted by whoever knows it.
        admit = None if site.pid is None else partial(admit_at_first_use, house, site, client, reporter)
        why = Controller(house, client, site.name, course, reporter, admit).run()
    built = datasets.build(house.store, house.blobs, house.views(), SftQuery(environment=site.name))
    if built.rows.height and f"dataset/{built.digest}" not in house.views().find(CHECKPOINTS):
        datasets.freeze(house.store, built, "controller")
    return why


def _show(summary: Summary) -> None:
    say("")
    facts(summary.rows(), title=f"flywheel run --loop {summary.loop}")
    say("")
    say("Try next:")
    program = "flywheel" if shutil.which("flywheel") else os.path.relpath(sys.argv[0])
    for command, what in (
        ("champion history", "who was champion, since when, on what evidence"),
        ("replay --verify", "rebuild every projection from the log and compare"),
        ("champion back --reason test", "put the champion before it back"),
    ):
        say(f"  {program + ' ' + command:<50} {what}")
