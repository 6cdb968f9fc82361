"""What a command costs before it does anything: the modules it loads, and its processor time as a whole process."""

from __future__ import annotations

import ast
import json
import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from api.cli.commands import COMMANDS, LazyCommand
from eventlog import events
from tests.conftest import Database

REPOSITORY = Path(__file__).parents[2]
HEAVY = {
    *("numpy", "polars", "torch", "transformers", "matplotlib", "lxml", "httpx2", "cryptography", "zstandard"),
    *("fastapi", "starlette", "uvicorn", "procrastinate", "alembic", "prometheus_client", "eventlog.events.union"),
}
OF_HELP = {*HEAVY, "sqlalchemy", "psycopg", "pydantic", "msgspec", "rich"}
OF_A_READ = {*HEAVY, "eventlog.events.event"}
"""What no command needs that reads folds: what a site, a model or a server needs, and the models of events."""

PROGRAM = """import json, sys
from api.cli.main import run_command
code = run_command(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
COMMAND = "from api.cli.main import main; main()"
STARTED = """import gc, json, sys
from api.cli import main
began = sum(each["collections"] for each in gc.get_stats())
def run_command(arguments):
    main.app.commands["champion"].command
    imported = sum(each["collections"] for each in gc.get_stats())
    code = own(arguments)
    print(json.dumps([code, imported - began, gc.isenabled(), gc.get_freeze_count() > 0]), file=sys.stderr)
    return code
own, main.run_command = main.run_command, run_command
main.main(["champion", "show"])
"""
"""Says what became of garbage collection: collections while a command is imported, and whether there are any later."""
FLOOR = "import asyncio, sqlalchemy.dialects.postgresql.psycopg, psycopg, pydantic.main, typer, rich.table, msgspec"
"""The libraries that every command with a database needs, whatever else is done."""


def _loaded(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


def _seconds(program: str, *words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program, *words], cwd=REPOSITORY, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture
def on_a_log(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", database.owner_url)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH")))))


def test_help_loads_no_library_but_that_of_the_command_line() -> None:
    assert not _loaded("--help") & OF_HELP


@pytest.mark.parametrize("words", [("champion", "show"), ("champion", "history"), ("runs", "list")], ids=" ".join)
def test_a_read_loads_nothing_that_it_does_without(words: tuple[str, ...], on_a_log: None) -> None:
    loaded = _loaded(*words)
    assert "sqlalchemy" in loaded
    assert not loaded & OF_A_READ
    assert not {name for name in loaded if name.startswith(("agents.", "trainer."))}


def test_a_command_costs_little_more_than_the_libraries_it_cannot_do_without(on_a_log: None) -> None:
    """Compared with those libraries, measured at the same time: a busy machine makes both slower."""
    rounds = [(_seconds(FLOOR), _seconds(COMMAND, "--help"), _seconds(COMMAND, "champion", "show")) for _ in range(3)]
    floor, of_help, of_show = (min(seconds) for seconds in zip(*rounds, strict=True))
    assert of_help < 0.5 * floor
    assert of_show < 1.6 * floor


def test_no_garbage_is_looked_for_while_a_command_is_imported_and_from_then_on_it_is(on_a_log: None) -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == [0, 0, True, True]


def test_a_line_of_the_help_is_the_first_sentence_of_the_commands_own_help() -> None:
    own = {name: LazyCommand(name, *entry).command for name, entry in COMMANDS.items()}
    assert {name: command.name for name, command in own.items()} == {name: name for name in COMMANDS}
    assert {name: line for name, (_, line) in COMMANDS.items()} == {
        name: command.get_short_help_str(limit=10_000) for name, command in own.items()
    }


def _public_names(source: str) -> set[str]:
    found = set()
    for node in ast.parse(source).body:
        match node:
            case (
                ast.ClassDef(name)
                | ast.FunctionDef(name)
                | ast.AnnAssign(ast.Name(name))
                | ast.Assign([ast.Name(name)])
            ):
                found.add(name)
    return {name for name in found if not name.startswith("_")}


def test_the_vocabulary_gives_every_public_name_from_the_module_that_defines_it() -> None:
    files = sorted(Path(events.__path__[0]).glob("[a-z]*.py"))
    assert {file.stem: _public_names(file.read_text()) for file in files} == {
        module: set(names.split()) for module, names in events.NAMES.items()
    }
    for module, names in events.NAMES.items():
        for name in names.split():
            assert getattr(events, name) is getattr(import_module(f"eventlog.events.{module}"), name)
