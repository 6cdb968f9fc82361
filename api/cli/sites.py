"""`flywheel env` for sites that somebody else built: what they say, and how they say it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agents.envs.connect import connect
from agents.envs.contract import TaskText
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.envs.foreign.observe import observe
from agents.envs.sandbox import PORT

from ..environments.connect import Where, site_elsewhere
from ..settings import read_settings
from .output import emit_json

Url = Annotated[str | None, typer.Option(help="A site that already runs: its page address.")]
AdminUrl = Annotated[str | None, typer.Option(help="Its admin address, if it is another one.")]
SandboxId = Annotated[str | None, typer.Option(help="A site in a Daytona sandbox: its id or name.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="The port of the pages in the sandbox.")]
AdminPort = Annotated[int | None, typer.Option(min=1, max=65535, help="The admin port there, if it is another one.")]
DialectFile = Annotated[Path | None, typer.Option("--dialect", help="How the site speaks: a file in TOML or JSON.")]


def observe_command(
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    may_seed: Annotated[bool, typer.Option(help="Seed it a few times too; what it holds is lost.")] = False,
) -> None:
    """Find out how a site of one instance speaks, and print its dialect as JSON; FLYWHEEL_ENV_ADMIN_TOKEN opens it."""
    known = Dialect() if dialect is None else read_dialect(dialect)
    where = Where(url, admin_url, sandbox, port, admin_port)
    with site_elsewhere(read_settings(), known.site or "foreign", where) as site:
        through = known.model_copy(update={"headers": {**known.headers, **site.admin_headers}})
        found = observe(site.admin_url, site.admin_token, through, may_seed=may_seed)
    emit_json(found.model_copy(update={"headers": known.headers}).model_dump(mode="json"))


def tasks_elsewhere(where: Where, dialect: Path | None) -> tuple[str, tuple[TaskText, ...]]:
    """The name of a site that runs elsewhere, and the tasks that it names or its dialect does."""
    known = Dialect() if dialect is None else read_dialect(dialect)
    with site_elsewhere(read_settings(), "foreign", where) as site, connect(site, known) as environment:
        health = environment.health()
    return health.site, health.tasks
