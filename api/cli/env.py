"""`flywheel env`: the simulated sites."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from agents.envs.clients.client import EnvClient
from agents.envs.contract import TaskText
from agents.envs.episodes.names import is_episode_name
from agents.envs.probing.probes import tasks_digest
from agents.envs.provider import known_sites, local_site
from agents.envs.sandbox import PORT
from agents.envs.sites.conditions import Conditions, read_conditions
from agents.envs.sites.first import FIRST
from agents.executors.kits import find_kits
from projections.environments import EnvironmentState

from ..environments.connect import TOKEN, Where
from ..environments.registration import register_environment
from ..queries.environments import EnvironmentPage, list_environments
from .output import ERR, AsJson, AsOf, emit_json, open_project, print_facts, print_rows, say
from .probe import probe, reset
from .sites import (
    AdminPort,
    AdminUrl,
    DialectFile,
    PoolSize,
    PoolVariables,
    PoolWords,
    Port,
    SandboxId,
    SuiteOf,
    Url,
    observe_command,
    pool_from,
    tasks_elsewhere,
)
from .sources import Server, open_source
from .sweep_options import dialect_from

app = typer.Typer(help="Environments: add, list, probe, reset, observe, serve.", no_args_is_help=True)
app.command()(probe)
app.command()(reset)


@app.command()
def add(
    name: Annotated[
        str, typer.Argument(help="The name by which the site answers, and by which it is known from now on.")
    ],
    *,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    command: PoolWords = None,
    variable: PoolVariables = None,
    processes: PoolSize = 1,
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    token: Annotated[
        str, typer.Option("--token-variable", help="The environment variable that holds the site's admin token.")
    ] = TOKEN,
    as_json: AsJson = False,
) -> None:
    """Register a site, so that its name is enough from now on. Nothing is recorded unless it answers and fits.

    With --command it is a pool: whatever plays the site starts its processes, on each machine, from that command line.

    The admin token stays in its variable, and so do values of headers: write their variable into the dialect.
    """
    pool = pool_from(command, variable)
    if pool is not None and (url is not None or admin_url is not None or sandbox is not None):
        raise typer.BadParameter("a pool starts the site itself: give --command, or where it runs, not both")
    where = Where(url, admin_url, sandbox, port, admin_port, token, pool, processes if pool is not None else 1)
    with open_project() as house:
        event = register_environment(house, name, where, dialect_from(dialect), suite, "operator")
    if as_json:
        emit_json(event.model_dump(mode="json", exclude={"type"}))
        return
    then = f"rollout sweep {name} --executor policy" if is_episode_name(name) else f"run --site {name}"
    say(f"{name} is registered. Next: `flywheel env probe {name}`, then `flywheel {then}`.")


@app.command("list")
def list_(
    *,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks of bundled and probed sites, or of one site elsewhere, and since when each site is admitted."""
    elsewhere = url is not None or sandbox is not None
    if elsewhere:
        tasks_of = dict([tasks_elsewhere(Where(url, admin_url, sandbox, port, admin_port), dialect)])
    else:
        tasks_of = _bundled_tasks()
    with open_source(server, as_of) as source:
        found, _ = source.pages(
            EnvironmentPage,
            "environments",
            "/v1/environments",
            lambda _house, views: list_environments(views),
            after=None,
            limit=None,
        )
    states = {state.environment: state for state in found}
    rows = [row for name, tasks in tasks_of.items() for row in _rows_of_bundled(name, tasks, states.get(name))]
    if not elsewhere:
        rows += [row for name, state in states.items() if name not in tasks_of for row in _rows_of_foreign(state)]
    shown = rows if as_json else [{**row, "admitted": row["admitted"] or "no"} for row in rows]
    print_rows(
        shown, ("site", "admitted", "task", "cluster", "instruction"), as_json=as_json, empty="no tasks are named"
    )


def _bundled_tasks() -> dict[str, tuple[TaskText, ...]]:
    """The tasks of each bundled environment, by its name."""
    found = {name: kind.tasks for name, kind in known_sites().items()}
    return found | {name: tasks for kit in find_kits() for name, tasks in kit.tasks().items()}


def _rows_of_bundled(
    name: str, tasks: tuple[TaskText, ...], state: EnvironmentState | None
) -> Iterator[dict[str, Any]]:
    is_admitted = state is not None and state.admits(tasks_digest(tasks))
    since = state.admitted_since if state is not None and is_admitted else None
    for task in tasks:
        yield {
            "site": name,
            "admitted": since,
            "task": task.task_id,
            "cluster": task.cluster,
            "instruction": task.instruction,
        }


def _rows_of_foreign(state: EnvironmentState) -> Iterator[dict[str, Any]]:
    """The rows of a site that runs elsewhere, with the tasks that it graded when it was probed."""
    since = state.admitted_since if state.admits(state.tasks_digest) else None
    for task in state.tasks:
        yield {"site": state.environment, "admitted": since, "task": task, "cluster": None, "instruction": None}


app.command("observe")(observe_command)


def _conditions(latency_ms: str | None, failure_rate: float) -> Conditions:
    try:
        return read_conditions(latency_ms, failure_rate)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem


@app.command()
def serve(
    site: Annotated[str, typer.Argument(help="Which site.")] = FIRST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The pages' port; 0 takes a free one.")] = 0,
    admin_port: Annotated[int, typer.Option(min=0, max=65535, help="The admin port; 0 takes a free one.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The seed of a first instance, to look at in a browser.")] = 0,
    repeat: Annotated[int, typer.Option(min=0, help="The sibling or repeat index of its noise.")] = 0,
    latency_ms: Annotated[
        str | None, typer.Option(metavar="A-B", help="Delay each page by A to B ms, drawn by seed.")
    ] = None,
    failure_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of pages answered with status 503; admin requests never fail.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Serve a site until interrupted, with one instance open. A new admin token is printed once."""
    conditions = _conditions(latency_ms, failure_rate)
    with (
        local_site(site, port=port, admin_port=admin_port, conditions=conditions) as local,
        EnvClient(local.admin_url, local.admin_token) as client,
    ):
        told = {
            "site": local.name,
            "instance": client.reset(seed, repeat=repeat).url,
            "url": local.url,
            "admin_url": local.admin_url,
            "admin_token": local.admin_token,
        }
        if as_json:
            emit_json(told)
        else:
            print_facts(list(told.items()))
            ERR.print("Serving; open the instance in a browser, Ctrl-C stops it.")
        while True:
            time.sleep(3600)
