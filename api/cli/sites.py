"""`flywheel env` for sites outside this project: their addresses, tasks and dialect."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agents.envs.connect import connect
from agents.envs.contract import TaskText
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.envs.foreign.observe import observe
from agents.envs.pool import PoolCommand
from agents.envs.sandbox import PORT

from ..environments.connect import Where, site_elsewhere
from ..settings import read_settings
from .output import ERR, emit_json

Url = Annotated[str | None, typer.Option(help="Address of the pages of a running site.")]
AdminUrl = Annotated[str | None, typer.Option(help="Admin address of the site, if different.")]
SandboxId = Annotated[str | None, typer.Option(help="Id or name of a Daytona sandbox that runs the site.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port of the pages in the sandbox.")]
AdminPort = Annotated[int | None, typer.Option(min=1, max=65535, help="Admin port in the sandbox, if different.")]
SuiteOf = Annotated[
    str | None,
    typer.Option(
        "--suite",
        metavar="NAME[@VERSION]|FILE",
        help="The suite of its tasks, or a file with it. Default: that of the environment.",
    ),
]
PoolWords = Annotated[
    str | None,
    typer.Option(
        "--command",
        metavar="WORDS",
        help="Start the site as a pool: one command line; {port} and {seed} are replaced.",
    ),
]
PoolVariables = Annotated[
    list[str] | None,
    typer.Option(
        "--variable",
        metavar="NAME=TEXT",
        help="A variable for that command, such as SEED={seed}; $FLYWHEEL_ENV_... names one that holds a secret.",
    ),
]
PoolSize = Annotated[int, typer.Option("--processes", min=1, max=1_000, help="Processes of the pool at a time.")]
DialectFile = Annotated[
    Path | None, typer.Option("--dialect", help="TOML or JSON file that describes the site's admin API.")
]


def observe_command(
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    dialect: DialectFile = None,
    may_seed: Annotated[bool, typer.Option(help="Also reset the site with a few seeds; its data is lost.")] = False,
) -> None:
    """Explore the admin API of a single-instance site (token: FLYWHEEL_ENV_ADMIN_TOKEN); print its dialect as JSON."""
    known = Dialect() if dialect is None else read_dialect(dialect)
    where = Where(url, admin_url, sandbox, port, admin_port)
    with site_elsewhere(read_settings(), known.site or "foreign", where) as site:
        through = known.model_copy(update={"headers": {**known.headers, **site.admin_headers}})
        found = observe(site.admin_url, site.admin_token, through, may_seed=may_seed, page_url=site.url, say=ERR.print)
    emit_json(found.model_copy(update={"headers": known.headers}).model_dump(mode="json"))


def pool_from(command: str | None, variables: Sequence[str] | None) -> PoolCommand | None:
    """The command of a pool, from one command line and `NAME=TEXT`s; None without a command. Raises BadParameter."""
    if command is None:
        if variables:
            raise typer.BadParameter("--variable is for the command of a pool: add --command")
        return None
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise typer.BadParameter(f"the command {command!r} cannot be split into words: {error}") from error
    if not words:
        raise typer.BadParameter("the command is empty; expected one such as 'python shop.py {port} {seed}'")
    parts = [each.partition("=") for each in variables or ()]
    if not all(mark for _, mark, _ in parts):
        raise typer.BadParameter("a variable is NAME=TEXT, such as SEED={seed}")
    return PoolCommand(words, {name: text for name, _, text in parts})


def tasks_elsewhere(where: Where, dialect: Path | None) -> tuple[str, tuple[TaskText, ...]]:
    """Name of a site that runs elsewhere, and its tasks as named by the site or its dialect."""
    known = Dialect() if dialect is None else read_dialect(dialect)
    with site_elsewhere(read_settings(), "foreign", where) as site, connect(site, known) as environment:
        health = environment.health()
    return health.site, health.tasks
