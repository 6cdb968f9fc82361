"""`flywheel worker`: one more process at the log, here or on another machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated

import typer

from agents.envs.sandbox import PORT
from agents.executors.executor import Executor
from agents.rollouts.durable import SHORTEST_RESCUE_S, Notice, Terms
from agents.rollouts.play import PLAN
from agents.rollouts.queue import RolloutQueue

from ..executing import Way, executor_of
from ..sites import Where, placed_at
from ..verifying import Watching, nobody, watching_of
from ..weights import folders_of
from ..worker import ROLES, Role, see_site, work
from .output import TerminalReporter, opened
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, Url
from .sweep_options import VerifySteps, spoken

_TEXTS = {
    "added": "{count} jobs put that the queue lacked",
    "rescued": "given out again, its worker was lost: {run}",
    "failed": "failed, tried again: {run}: {error}",
    "parked": "parked: {run}: {error}",
    "timed_out": "took too long, is missing: {run}",
    "again": "{count} parked jobs given out again",
    "started": "{roles} for {site}; Ctrl-C ends it when what is under way has ended",
    "stopped": "stopped; {open} jobs wait or are under way elsewhere, {parked} are parked",
}
_Tell = Callable[..., None]


def worker(
    *,
    roles: Annotated[str, typer.Option(metavar="runner[,projector]", help="What it does.")] = "runner",
    site: Annotated[str, typer.Option(help="The site whose rollouts it plays.")] = "marketplace",
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    executor: Annotated[Way, typer.Option(help="How: a plan over HTTP or in Chromium, or a model.")] = Way.PLAN,
    verify_steps: VerifySteps = False,
    max_parallel: Annotated[int, typer.Option(min=1, max=64, help="Runs side by side; 1 is sequential.")] = 4,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds a run may take; then it is missing.")] = 900,
    rescue_after: Annotated[
        float, typer.Option(min=SHORTEST_RESCUE_S, help="Seconds without a sign of another worker until it is lost.")
    ] = 30,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Exit when nothing is left to do.")] = False,
    retry_parked: Annotated[bool, typer.Option("--retry-parked", help="Give parked jobs out again first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line for each event.")] = False,
) -> None:
    """Play planned rollouts from the queue, any number of processes together. Exit code 1 where jobs stay parked."""
    chosen = _roles(roles)
    terms = Terms(max_parallel, timeout_s=timeout, rescue_after_s=rescue_after, until_empty=until_empty)
    tell = _as_json if as_json else _as_text
    with opened() as house, ExitStack() as stack:
        queue, client = RolloutQueue(house.engine, site), None
        doing: Executor = PLAN
        watching: Watching = nobody
        if "runner" in chosen:
            where = Where(url, admin_url, sandbox, port, admin_port)
            placed = stack.enter_context(placed_at(house, site, where, spoken(dialect)))
            see_site(house, placed, site, TerminalReporter())
            client = placed.environment
            doing = stack.enter_context(
                executor_of(executor, house.settings, tabs=placed.tabs, folder_of=folders_of(house))
            )
            checking = watching_of(house.settings, client, site, verify_steps=verify_steps)
            watching = stack.enter_context(checking)
            if retry_parked:
                tell("again", count=queue.retry_parked())
        tell("started", roles=" and ".join(chosen), site=site)
        follows = "projector" in chosen
        work(
            house, client, site, terms, lambda notice: _notice(tell, notice), doing, follows=follows, watching=watching
        )
        parked = len(queue.parked()) if client is not None else 0
        tell("stopped", open=queue.open(), parked=parked)
    if until_empty and parked:
        raise typer.Exit(1)


def _roles(named: str) -> list[Role]:
    chosen = [role for role in ROLES if role in named.split(",")]
    if not chosen or set(named.split(",")) - set(ROLES):
        raise typer.BadParameter(f"{named!r} names no roles; expected {' or '.join(ROLES)}, or both with a comma")
    return chosen


def _notice(tell: _Tell, notice: Notice) -> None:
    facts = dict(notice.facts)
    if notice.ticket is None:
        facts["count"] = notice.count
    else:
        facts = {"run": notice.ticket.spec, "sweep": notice.ticket.sweep, "state_key": notice.ticket.state_key} | facts
    tell(notice.kind, **facts)


def _as_json(event: str, **facts: object) -> None:
    typer.echo(json.dumps({"event": event, **facts}, ensure_ascii=False))


def _as_text(event: str, **facts: object) -> None:
    if event != "played":
        TerminalReporter().say(_TEXTS[event].format(**facts))
        return
    reason = facts.get("reason")
    passed = {True: ", passed", False: ", failed its oracle"}.get(bool(facts["passed"])) if "passed" in facts else ""
    TerminalReporter().say(f"{facts['run']}: {facts['status']}{f', {reason}' if reason else ''}{passed}")
