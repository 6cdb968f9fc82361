"""`flywheel suite`: suites of tasks, as files and in the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agents.suites.in_log import register_suite
from agents.suites.suite_file import check_suite, locate_in_suite, read_suite
from agents.suites.tasks import misfits
from agents.suites.toml_text import suite_toml
from eventlog.events import Suite, SuiteTask

from ..environments.connect import TOKEN, Where
from ..queries.suites import SuiteAnswer, SuiteList, SuiteRow, list_suites, show_suite
from .output import AsJson, AsOf, emit_json, open_project, print_rows, say
from .sites import AdminUrl, DialectFile, Url, tasks_elsewhere
from .sources import Server, open_source, quote_name

app = typer.Typer(help="Suites: new, check, add, list, show.", no_args_is_help=True)
TokenVariable = Annotated[
    str, typer.Option("--token-variable", help="The environment variable that holds the site's admin token.")
]
SuiteFile = Annotated[Path, typer.Argument(metavar="FILE", help="The suite file: TOML or JSON.")]


@app.command()
def new(
    file: SuiteFile,
    url: Url = None,
    admin_url: AdminUrl = None,
    dialect: DialectFile = None,
    name: Annotated[str | None, typer.Option(help="The suite's name. Default: that of the site.")] = None,
    token: TokenVariable = TOKEN,
) -> None:
    """Write a first suite file from the tasks that a running site names, for you to add plans to."""
    if file.exists():
        raise typer.BadParameter(f"{file} is there already; name a new file")
    site, tasks = tasks_elsewhere(Where(url, admin_url, token=token), dialect)
    found = tuple(SuiteTask(id=each.task_id, instruction=each.instruction, cluster=each.cluster) for each in tasks)
    file.write_text(suite_toml(Suite(name=name or site, environment=site, tasks=found)), "utf-8")
    say(f"wrote {file} with {len(found)} tasks of {site}. Next: give them plans, and `flywheel suite check {file}`.")


@app.command()
def check(
    file: SuiteFile,
    url: Url = None,
    admin_url: AdminUrl = None,
    dialect: DialectFile = None,
    token: TokenVariable = TOKEN,
    as_json: AsJson = False,
) -> None:
    """Check a suite file. Exit code 1 if anything is wrong in it; each fault is named with its line and field.

    With --url it is also checked against the site: whether it is for this site, which has to grade its tasks.
    """
    found = check_suite(file)
    faults = () if isinstance(found, Suite) else found
    if isinstance(found, Suite) and url is not None:
        site, graded = tasks_elsewhere(Where(url, admin_url, token=token), dialect)
        faults = tuple(f"{locate_in_suite(file, place)}: {problem}" for place, problem in misfits(found, site, graded))
    if as_json:
        emit_json({"file": str(file), "faults": list(faults)})
    elif isinstance(found, Suite) and not faults:
        planned = sum(task.plan is not None for task in found.tasks)
        say(f"{file}: {found.name} for {found.environment}, {len(found.tasks)} tasks, {planned} of them with a plan")
    for fault in () if as_json else faults:
        say(f"{file}, {fault}")
    if faults:
        raise typer.Exit(1)


@app.command()
def add(file: SuiteFile, as_json: AsJson = False) -> None:
    """Bring a suite file into the log as a new version, unless its content is the newest version's."""
    suite = read_suite(file)
    with open_project() as house:
        versioned = register_suite(house.store, house.views(), suite, "operator")
    if as_json:
        emit_json({"suite": suite.name, "version": versioned.version})
    else:
        say(f"{versioned} is in the log, for {suite.environment}")


@app.command("list")
def list_(as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """List the versions of suites in the log, and the bundled suites that were not brought in (version 0)."""
    with open_source(server, as_of) as source:
        rows, _ = source.pages(SuiteList, "suites", "/v1/suites", lambda _house, views: list_suites(views), None, None)
    print_rows(msgspec.to_builtins(rows), SuiteRow.__struct_fields__, as_json=as_json, empty="none")


@app.command()
def show(
    suite: Annotated[str, typer.Argument(metavar="SUITE[@VERSION]", help="The suite; the newest version without one.")],
    as_of: AsOf = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show a version of a suite as a suite file."""
    path = f"/v1/suites/{quote_name(suite)}"
    with open_source(server, as_of) as source:
        found = source.read(SuiteAnswer, path, lambda house, views: show_suite(house.store, views, suite))
    if as_json:
        emit_json(found)
    else:
        say(f"# {found.suite}")
        say(suite_toml(Suite.model_validate_json(json.dumps(found.content))))
