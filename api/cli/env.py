"""`flywheel env`: the simulated sites."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from agents.envs.provider import known_sites, local_site

from .output import ERR, AsJson, emit_json, listing, say

app = typer.Typer(help="Environments: list, serve.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the simulated sites and the tasks they grade."""
    rows = [
        {"site": name, "task": task.task_id, "instruction": task.instruction}
        for name, kind in known_sites().items()
        for task in kind.tasks
    ]
    listing(rows, ("site", "task", "instruction"), as_json=as_json, empty="no sites")


@app.command()
def serve(
    site: Annotated[str, typer.Argument(help="Which site.")] = "marketplace",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The pages' port; 0 takes a free one.")] = 0,
    admin_port: Annotated[int, typer.Option(min=0, max=65535, help="The admin port; 0 takes a free one.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Serve a site until interrupted. Its admin token is made anew and printed once."""
    with local_site(site, port=port, admin_port=admin_port) as local:
        facts = {"site": local.name, "url": local.url, "admin_url": local.admin_url, "admin_token": local.admin_token}
        if as_json:
            emit_json(facts)
        else:
            for name, value in facts.items():
                say(f"{name:<12} {value}")
            ERR.print("Serving; Ctrl-C stops it.")
        while True:
            time.sleep(3600)
