"""`flywheel env`: the simulated sites."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from agents.envs.client import EnvClient
from agents.envs.miniwob.served import is_installed
from agents.envs.miniwob.tasks import SITE, TASKS
from agents.envs.provider import Site, known_sites, local_site
from agents.envs.sandbox import PORT
from agents.envs.sites.conditions import Conditions, read_conditions

from ..sites import Where
from .output import ERR, AsJson, emit_json, facts, listing
from .sites import AdminPort, AdminUrl, DialectFile, Port, SandboxId, Url, observe_command, tasks_elsewhere

app = typer.Typer(help="Environments: list, observe, serve.", no_args_is_help=True)


@app.command("list")
def list_(
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    as_json: AsJson = False,
) -> None:
    """List the simulated sites and the tasks they grade, or the tasks of one that runs elsewhere."""
    if url is None and sandbox is None:
        told = {name: kind.tasks for name, kind in known_sites().items()}
        if is_installed():
            told[SITE] = tuple(task.told() for task in TASKS.values())
    else:
        told = dict([tasks_elsewhere(Where(url, admin_url, sandbox, port, admin_port), dialect)])
    rows = [
        {"site": name, "task": task.task_id, "cluster": task.cluster, "instruction": task.instruction}
        for name, tasks in told.items()
        for task in tasks
    ]
    listing(rows, ("site", "task", "cluster", "instruction"), as_json=as_json, empty="no tasks are named")


app.command("observe")(observe_command)


def _client(site: Site) -> EnvClient:
    return EnvClient(site.admin_url, site.admin_token)


def _conditions(latency_ms: str | None, failure_rate: float) -> Conditions:
    try:
        return read_conditions(latency_ms, failure_rate)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem


@app.command()
def serve(
    site: Annotated[str, typer.Argument(help="Which site.")] = "marketplace",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The pages' port; 0 takes a free one.")] = 0,
    admin_port: Annotated[int, typer.Option(min=0, max=65535, help="The admin port; 0 takes a free one.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The seed of a first instance, to look at in a browser.")] = 0,
    repeat: Annotated[int, typer.Option(min=0, help="The sibling or repeat index of its noise.")] = 0,
    latency_ms: Annotated[
        str | None, typer.Option(metavar="A-B", help="Let each page wait so many ms, drawn by seed.")
    ] = None,
    failure_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Answer this share of the pages 503; the admin port never.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Serve a site until interrupted, with one instance open. Its admin token is made anew and printed once."""
    conditions = _conditions(latency_ms, failure_rate)
    with (
        local_site(site, port=port, admin_port=admin_port, conditions=conditions) as local,
        _client(local) as client,
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
            facts(list(told.items()))
            ERR.print("Serving; open the instance in a browser, Ctrl-C stops it.")
        while True:
            time.sleep(3600)
