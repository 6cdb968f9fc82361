"""Reading commands with --server: each prints what it prints where the log is, and the others say that they cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest

from api.cli.commands import SERVED, UNSERVED, LazyCommand, why_unserved
from api.cli.main import app, run_command
from api.cli.sources import ServerSource
from api.history.withdraw import withdraw_runs
from api.house import House
from api.queries.events import LoggedEvent
from api.tokens import issue
from eventlog.database import open_engine
from eventlog.store import Append
from tests.browser import dashboard
from tests.browser.dashboard import DATASET, PIECE, RUN, SEALED, TOLD, serve_pages
from tests.conftest import Database, house_on
from tests.golden.test_golden_samples import sample
from tests.shared import Copies

from .planted_loops import LOOP, SKILL, SKILL_PIECE, TOOL, plant_loops
from .test_cli import commands

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
"""A database that a command which asks a server must not touch."""

CHECKPOINT = sample("CheckpointSaved").model_dump()["checkpoint"]
WITHDRAWN = f"{dashboard.GROUP}__s2"

CASES: dict[str, list[tuple[str, ...]]] = {
    "champion show": [(), ("--as-of", "100"), ("--as-of", "1"), ("--as-of", "99999"), ("--as-of", "noon")],
    "champion history": [(), ("--as-of", "1")],
    "runs list": [
        (),
        ("--limit", "7"),
        ("--limit", "7", "--after", RUN),
        ("--sweep", "eval-1"),
        ("--sweep", "nothing"),
        ("--failed", "--status", "completed"),
        ("--status", "missing"),
        ("--as-of", "1"),
    ],
    "runs show": [(RUN,), (WITHDRAWN,), ("marketplace-1__marketplace.phone_reveal__seed0__s0",), ("nothing",)],
    "rewrites list": [(), ("--status", "promoted"), ("--limit", "1"), ("--status", "cold", "--as-of", "300")],
    "rewrites show": [(PIECE,), (PIECE, "--as-of", "700"), ("nothing",)],
    "hints list": [()],
    "hints show": [("hint-3f9a1c22b7d0",), ("nothing",)],
    "exemplars list": [()],
    "exemplars show": [("nothing",)],
    "curriculum list": [("--limit", "5")],
    "curriculum show": [("nothing",)],
    "recipes list": [()],
    "recipes show": [("nothing",)],
    "instructions list": [()],
    "instructions show": [("nothing",)],
    "skills pieces list": [()],
    "skills pieces show": [(SKILL_PIECE,), ("nothing",)],
    "failures list": [(), ("--limit", "2")],
    "substrates list": [()],
    "substrates show": [("marketplace/knowledge",), ("nothing/at-all",)],
    "env list": [()],
    "dataset list": [(), ("--limit", "1")],
    "dataset show": [(DATASET[:12],), ("nothing",), ("ffffffff",)],
    "dataset card": [(DATASET,)],
    "dataset export": [],
    "checkpoint list": [()],
    "checkpoint show": [(CHECKPOINT[:12],), ("nothing",), ("ffffffff",)],
    "checkpoint lineage": [("ffffffff",)],
    "gate list": [(), ("--limit", "1")],
    "gate explain": [("eval-1",), (SEALED,), (TOLD,), ("nothing",)],
    "gate ledger": [("--benchmark", "marketplace-1"), ("--benchmark", "nothing")],
    "outcomes": [(), ("--limit", "2"), ("--sweep", "ext-shop")],
    "diff": [("--from", "100", "--to", "400"), ("--from", "1"), ("--from", "400", "--to", "100")],
    "log tail": [("-n", "5"), ("-n", "200", "--type", "ChampionPointed")],
    "log head": [()],
    "log stats": [()],
    "log inspect": [(), ("--as-of", "100"), ("--limit", "1", "--after", "1000000")],
    "rollout status": [(), ("--limit", "1"), ("marketplace-1",), ("nothing",), ("--after", "nothing")],
    "benchmark list": [(), ("--as-of", "1"), ("--limit", "1", "--after", "marketplace-1")],
    "benchmark show": [("marketplace-1",), ("nothing",)],
    "base list": [()],
    "base show": [("nothing",)],
    "suite list": [()],
    "suite show": [("shop",), ("shop@1",), ("shop@2",), ("nothing",)],
    "delegate list": [(), ("--as-of", "1")],
    "delegate show": [(LOOP,), ("nothing",)],
    "skills list": [()],
    "skills show": [(SKILL,), ("nothing",)],
    "tools list": [(), ("--after", TOOL)],
    "tools show": [(TOOL,), ("nothing",)],
    "artifact show": [("base@0",), ("base@395",), ("base@999999",), ("nothing",), ("ck-ffffffff@3",)],
    "blobs list": [(), ("--limit", "3"), ("--limit", "3", "--after", "a" * 64)],
    "webhook list": [()],
    "token list": [()],
}
"""Arguments of each command that takes --server, as people would give them; some name what does not exist."""

JSONLESS = {"dataset card", "log tail"}
"""Commands without --json, or whose JSON a server gives without the digests of events."""

Printed = tuple[int, str, list[str]]


@dataclass(frozen=True)
class Both:
    """A log, a server of it, and a token that reads everything."""

    database: Database
    house: House
    address: str
    token: str


@pytest.fixture(scope="module")
def both(copies: Copies) -> Iterator[Both]:
    with copies() as make:
        database = make("seeded")
        engine = open_engine(database.app_url)
        house = house_on(engine, database)
        dashboard.plant(house)
        plant_loops(house)
        credited = sample("SubstrateCredited")
        events = (sample("SubstrateChosen"), credited, credited)
        house.store.append([Append("substrate/knowledge", events, "controller")])
        withdraw_runs(house.store, [WITHDRAWN], "a trial by the tests", "operator")
        token = issue(house.store, "reader", "test", "admin")
        with serve_pages(house) as address:
            yield Both(database, house, address, token)
        engine.dispose()


@pytest.fixture
def local(both: Both, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    """Run a command where the log is."""

    def run(*arguments: str) -> Printed:
        with monkeypatch.context() as here:
            here.setenv("FLYWHEEL_DATABASE_URL", both.database.app_url)
            here.setenv("FLYWHEEL_OWNER_URL", both.database.owner_url)
            here.setenv("FLYWHEEL_KEYS", str(both.database.keys))
            return printed(run_command(list(arguments)), capsys)

    return run


@pytest.fixture
def served(
    both: Both, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Printed]:
    """Run a command that asks the server, where there is no log."""

    def run(*arguments: str) -> Printed:
        with monkeypatch.context() as there:
            there.setenv("FLYWHEEL_DATABASE_URL", NOWHERE)
            there.setenv("FLYWHEEL_HOME", str(tmp_path / "home"))
            there.setenv("FLYWHEEL_TOKEN", both.token)
            return printed(run_command([*arguments, "--server", both.address]), capsys)

    return run


def printed(code: int, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Exit code, output, and of the errors the sentences: progress tells how long something took."""
    found = capsys.readouterr()
    return code, found.out, [line for line in found.err.splitlines() if line.startswith(("flywheel:", "There are"))]


@pytest.mark.parametrize("command", SERVED)
def test_a_command_prints_the_same_from_a_server_as_where_the_log_is(
    command: str, local: Callable[..., Printed], served: Callable[..., Printed]
) -> None:
    forms = [()] if command in JSONLESS else [(), ("--json",)]
    for arguments in CASES[command]:
        for form in forms:
            words = (*command.split(), *arguments, *form)
            assert served(*words) == local(*words), words


def test_some_case_of_every_kind_prints_something(local: Callable[..., Printed]) -> None:
    empty = [
        command
        for command, cases in CASES.items()
        if cases and all(local(*command.split(), *case)[0] for case in cases)
    ]
    unplanted = {f"{kind} show" for kind in ("exemplars", "curriculum", "recipes", "instructions", "base")}
    assert set(empty) <= {*unplanted, "checkpoint lineage"}


@pytest.mark.parametrize("ending", [".parquet", ".ndjson", ".arrow"])
def test_rows_are_exported_from_a_server_as_they_are_from_the_log(
    ending: str, local: Callable[..., Printed], served: Callable[..., Printed], tmp_path: Path
) -> None:
    here, there = tmp_path / f"here{ending}", tmp_path / f"there{ending}"
    assert local("dataset", "export", DATASET[:8], str(here))[0] == 0
    code, out, _ = served("dataset", "export", DATASET[:8], str(there))
    assert (code, out.split()[0]) == (0, str(len(rows_of(here))))
    assert rows_of(there).equals(rows_of(here))
    assert served("dataset", "export", "ffffffff", str(tmp_path / f"none{ending}"))[0] == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([here.name, there.name])


def rows_of(file: Path) -> pl.DataFrame:
    read: Any = {".parquet": pl.read_parquet, ".ndjson": pl.read_ndjson, ".arrow": pl.read_ipc_stream}[file.suffix]
    frame: pl.DataFrame = read(file)
    return frame


def test_the_table_names_every_command_that_takes_a_server() -> None:
    taking = {" ".join(words) for words in commands() if "server" in {each.name for each in options_of(words)}}
    assert taking == SERVED.keys() == CASES.keys()


def options_of(words: tuple[str, ...]) -> list[Any]:
    command = app.commands[words[0]]
    assert isinstance(command, LazyCommand)
    found: Any = command.command
    for word in words[1:]:
        found = found.commands[word]
    return list(found.params)


@pytest.mark.parametrize("words", [each for each in commands() if " ".join(each) not in SERVED], ids=" ".join)
def test_any_other_command_says_that_it_needs_the_log(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*words, "--server", "http://127.0.0.1:1"]) == 64
    said = " ".join(capsys.readouterr().err.split())
    assert f"'{' '.join(words)}' takes no --server, because {why_unserved(' '.join(words))}" in said


def test_every_command_asks_a_server_or_says_why_it_does_not() -> None:
    why = [words for each in UNSERVED.values() for words in each]
    assert sorted([*SERVED, *why]) == sorted(" ".join(words) for words in commands())


def test_a_server_may_be_named_before_the_command(
    both: Both, served: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    last = served("champion", "show")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", NOWHERE)
    monkeypatch.setenv("FLYWHEEL_TOKEN", both.token)
    for first in (["--server", both.address], [f"--server={both.address}"]):
        assert printed(run_command([*first, "champion", "show"]), capsys) == last
    for words in (["--server", both.address], ["champion", "--server", both.address, "show"], ["--server"]):
        assert run_command(words) == 64
        assert "`flywheel champion show --server URL`" in " ".join(capsys.readouterr().err.split())


def test_what_a_server_tells_administrators_alone_it_refuses_to_others(
    both: Both, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYWHEEL_TOKEN", issue(both.house.store, "onlooker", "test", "operate"))
    for words in (["blobs", "list"], ["webhook", "list"], ["token", "list"]):
        code, out, said = printed(run_command([*words, "--server", both.address]), capsys)
        assert (code, out) == (1, ""), words
        assert "admin" in said[0], words


def test_a_base_is_shown_from_a_server_without_the_folder_that_only_the_log_s_machine_has(
    local: Callable[..., Printed], served: Callable[..., Printed]
) -> None:
    here, there = (json.loads(ask("base", "show", "smollm2", "--json")[1]) for ask in (local, served))
    assert there == {name: value for name, value in here.items() if name not in {"folder", "present"}}
    assert there["name"] == "smollm2"


def test_what_needs_the_log_is_refused_beside_a_server(served: Callable[..., Printed]) -> None:
    for words in (
        ("gate", "explain", "eval-1", "--spend"),
        ("gate", "explain", "eval-1", "--plot", "verdict.svg"),
        ("gate", "ledger"),
        ("checkpoint", "lineage", "--run", RUN),
        ("blobs", "list", "--orphans"),
        ("blobs", "list", "--references"),
    ):
        code, _, said = served(*words)
        assert code == 64, words
        assert "--server" in said[0], words


def test_a_server_that_refuses_is_silent_or_is_another_is_told_of(
    both: Both, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show = ["champion", "show", "--server"]
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", NOWHERE)
    monkeypatch.delenv("FLYWHEEL_TOKEN", raising=False)
    assert run_command([*show, both.address]) == 1
    assert "FLYWHEEL_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("FLYWHEEL_TOKEN", "fw_wrong")
    assert run_command([*show, both.address]) == 1
    said = capsys.readouterr().err
    assert "401" in said
    assert "fw_wrong" not in said
    assert run_command([*show, "http://127.0.0.1:1"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert run_command([*show, "no address"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert run_command([*show, f"{both.address}/nothing"]) == 1
    assert "answered 404" in " ".join(capsys.readouterr().err.split())
    with another_server() as address:
        assert run_command([*show, address]) == 1
    assert "expected an answer of the REST API" in " ".join(capsys.readouterr().err.split())


@contextmanager
def another_server() -> Iterator[str]:
    """The address of a server that is none of ours: it answers 501 and a page."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_log_is_followed_over_a_server(
    both: Both, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYWHEEL_TOKEN", both.token)
    whole = ServerSource.follow

    def first(self: ServerSource, params: Any) -> Iterator[LoggedEvent]:
        issue(both.house.store, "newcomer", "test", "read")
        yield next(whole(self, params))
        raise KeyboardInterrupt

    monkeypatch.setattr(ServerSource, "follow", first)
    assert run_command(["log", "tail", "-n", "1", "--follow", "--server", both.address]) == 130
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "TokenIssued" in lines[1]
    assert int(lines[1].split()[0]) == int(lines[0].split()[0]) + 1


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out.startswith("flywheel 0.")
