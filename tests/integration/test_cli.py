"""The flywheel command on the golden log: what it prints, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.core import TyperGroup

from api.cli.commands import LazyCommand
from api.cli.main import app, run_command
from tests.conftest import GOLDEN, Database

pytestmark = pytest.mark.reads

Flywheel = Callable[..., tuple[int, str, str]]


@pytest.fixture
def flywheel(database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Flywheel:
    """Run a command on the golden log: exit code, standard output, standard error."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(database.keys))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def commands() -> list[tuple[str, ...]]:
    """Every command there is, by its words."""
    found: list[tuple[str, ...]] = []
    for name, command in app.commands.items():
        assert isinstance(command, LazyCommand)
        found += _leaves((name,), command.command)
    return found


def _leaves(words: tuple[str, ...], command: Any) -> list[tuple[str, ...]]:
    if not isinstance(command, TyperGroup):
        return [words]
    return [leaf for word, below in command.commands.items() for leaf in _leaves((*words, word), below)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_explains_itself(words: tuple[str, ...], flywheel: Flywheel) -> None:
    code, out, _ = flywheel(*words, "--help")
    assert code == 0
    assert "Usage: flywheel " + " ".join(words) in " ".join(out.split())


LISTS = [
    ("runs", "list"),
    ("runs", "judges"),
    ("rewrites", "list"),
    ("failures", "list"),
    ("outcomes",),
    ("dataset", "list"),
    ("benchmark", "list"),
    ("gate", "list"),
    ("gate", "ledger"),
    ("champion", "history"),
    ("env", "list"),
    ("token", "list"),
    ("log", "stats"),
    ("log", "tail"),
    ("blobs", "list"),
    ("replay",),
]


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_prints_a_table_for_people_and_json_for_programs(words: tuple[str, ...], flywheel: Flywheel) -> None:
    code, out, _ = flywheel(*words)
    assert code == 0
    assert out.strip()
    code, out, _ = flywheel(*words, "--json")
    assert code == 0
    assert isinstance(json.loads(out), list)


def shown(flywheel: Flywheel, *words: str) -> Any:
    code, out, err = flywheel(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_what_a_list_names_can_be_shown(flywheel: Flywheel) -> None:
    for group, key in (("runs", "run"), ("rewrites", "rewrite"), ("dataset", "dataset"), ("benchmark", "benchmark")):
        name = shown(flywheel, group, "list")[0][key]
        assert shown(flywheel, group, "show", name)[key] == name
    assert flywheel("runs", "show", shown(flywheel, "runs", "list")[0]["run"])[0] == 0


def test_a_piece_and_a_dataset_are_shown_to_people_without_raw_objects(flywheel: Flywheel) -> None:
    for group, key in (("rewrites", "rewrite"), ("dataset", "dataset")):
        row = shown(flywheel, group, "list")[0]
        code, out, _ = flywheel(group, "show", row[key])
        assert (code, row[key] in out) == (0, True)
        assert not [mark for mark in ("{", "[", "00000 ") if mark in out]


def test_a_list_of_runs_that_is_empty_says_why(flywheel: Flywheel) -> None:
    sweep = shown(flywheel, "runs", "list")[0]["sweep"]
    assert flywheel("runs", "list", "--status", "missing")[:2] == (0, "no run with the status missing\n")
    _, out, _ = flywheel("runs", "list", "--sweep", sweep, "--status", "started")
    assert out == f"no run of {sweep} with the status started\n"
    assert "up to position 1" in flywheel("runs", "list", "--as-of", "1")[1]


def test_runs_are_listed_a_page_at_a_time_and_none_twice(flywheel: Flywheel) -> None:
    every = [row["run"] for row in shown(flywheel, "runs", "list", "--limit", "100000")]
    pages: list[str] = []
    while page := shown(flywheel, "runs", "list", "--limit", "17", "--after", pages[-1] if pages else ""):
        pages += [row["run"] for row in page]
    assert pages == every
    assert len(set(every)) == len(every) == 72


def test_the_champion_of_every_position_is_who_was_pointed_last_before_it(flywheel: Flywheel) -> None:
    history = shown(flywheel, "champion", "history")
    assert [row["by"] for row in history] == ["genesis", "gate", "rollback"]
    for row, following in zip(history, [*history[1:], None], strict=True):
        until = following["since"] - 1 if following else row["since"]
        for position in (row["since"], until):
            assert shown(flywheel, "champion", "show", "--as-of", str(position))["champion"] == row["champion"]


@pytest.mark.writes
def test_the_champion_is_pointed_and_put_back_with_a_reason(flywheel: Flywheel) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    assert flywheel("champion", "point", promoted, "--reason", "by hand", "--yes")[0] == 0
    assert shown(flywheel, "champion", "show")["champion"] == promoted
    code, out, _ = flywheel("champion", "back", "--reason", "test", "--yes")
    assert code == 0
    assert "base@0 is champion again" in out
    assert shown(flywheel, "champion", "show")["reason"] == "test"


def test_a_verdict_is_explained_and_recomputes_to_the_same_bytes(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("gate", "explain", "eval-1")
    assert code == 0
    assert "probability of improvement" in out
    code, out, _ = flywheel("gate", "verify", "eval-1")
    assert code == 0
    assert out.startswith("equal: eval-1")
    code, out, _ = flywheel("gate", "verify", "--all")
    assert (code, out.startswith("equal: eval-1")) == (0, True)


def test_a_verdict_is_drawn_the_same_whenever_asked(flywheel: Flywheel, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg", "one.PNG"):
        code, out, _ = flywheel("gate", "explain", "eval-1", "--plot", str(tmp_path / name))
        assert (code, "drawn: " in out) == (0, True)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.PNG").read_bytes().startswith(b"\x89PNG")
    for name in ("one.pdf", "none/one.svg"):
        code, _, err = flywheel("gate", "explain", "eval-1", "--plot", str(tmp_path / name))
        assert (code, "expected a file whose name ends in .svg or .png" in " ".join(err.split())) == (1, True)
    assert not (tmp_path / "one.pdf").exists()


@pytest.mark.writes
def test_the_log_verifies_and_every_projection_is_identical(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("log", "verify")
    assert code == 0
    assert "events verify" in out
    code, out, _ = flywheel("replay", "--verify")
    assert code == 0
    assert "Every projection is identical" in out
    code, out, _ = flywheel("replay", "--verify", "--to", "100")
    assert (code, "Every projection is identical at the positions shown." in out) == (0, True)
    code, out, _ = flywheel("replay", "--to", "100", "--projection", "costs")
    assert (code, "Every projection is identical at position 100." in out) == (0, True)
    code, _, err = flywheel("replay", "--rebuild", "--to", "5")
    assert (code, "--to" in err) == (64, True)
    assert flywheel("replay", "--rebuild", "--verify", "--projection", "rewrites")[0] == 0


@pytest.mark.writes
def test_a_dataset_is_built_verified_and_exported(flywheel: Flywheel, tmp_path: Path) -> None:
    built = shown(flywheel, "dataset", "build", "--min-score", "1", "--best-of-group")
    assert built["rows"] > 0
    code, out, _ = flywheel("dataset", "verify", built["dataset"])
    assert code == 0
    assert out.startswith("equal")
    for ending, read in ((".parquet", pl.read_parquet), (".ndjson", pl.read_ndjson), (".arrow", pl.read_ipc_stream)):
        file = tmp_path / f"rows{ending}"
        assert flywheel("dataset", "export", built["dataset"], str(file))[0] == 0
        assert read(file).height == built["rows"]
    assert flywheel("dataset", "export", built["dataset"], str(tmp_path / "rows.csv"))[0] == 64


@pytest.mark.writes
def test_an_artifact_shows_what_it_remembers(flywheel: Flywheel) -> None:
    assert shown(flywheel, "artifact", "show", "base@0")["pieces"] == []
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    assert [piece["change"]["kind"] for piece in shown(flywheel, "artifact", "show", promoted)["pieces"]] == [
        "follow_link"
    ]


@pytest.mark.writes
def test_a_token_is_issued_once_and_revoked(flywheel: Flywheel) -> None:
    code, out, _ = flywheel("token", "issue", "ci")
    assert code == 0
    assert out.startswith("fw_")
    assert flywheel("token", "issue", "ci")[0] == 1
    assert flywheel("token", "revoke", "ci", "--reason", "test")[0] == 0
    assert shown(flywheel, "token", "list") == [{"token": "ci", "role": "ingest", "revoked": True}]


@pytest.mark.parametrize("where", ["none/log.gz", "."])
def test_an_export_to_a_place_that_is_none_ends_before_it_begins(
    where: str, flywheel: Flywheel, tmp_path: Path
) -> None:
    code, _, err = flywheel("log", "export", str(tmp_path / where))
    assert code == 1
    assert f"{tmp_path / where}: " in err
    assert "exporting" not in err


def test_an_import_shows_how_many_of_how_many(
    flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch, clone: Callable[[str], Database]
) -> None:
    other = clone("empty")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", other.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", other.owner_url)
    code, _, err = flywheel("log", "import", str(GOLDEN))
    assert code == 0
    assert "652/652" in err


def test_the_log_is_exported_and_imported_with_the_same_chain(
    flywheel: Flywheel, tmp_path: Path, clone: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = shown(flywheel, "log", "head")
    file = tmp_path / "log.ndjson.gz"
    assert flywheel("log", "export", str(file))[0] == 0
    other = clone("empty")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", other.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", other.owner_url)
    assert flywheel("log", "import", str(file))[0] == 0
    assert shown(flywheel, "log", "head") == head
    assert flywheel("replay", "--verify")[0] == 0


def test_a_memory_file_says_how_much_was_left_out_and_why(flywheel: Flywheel, tmp_path: Path) -> None:
    code, out, _ = flywheel("recipes", "export", str(tmp_path / "memory.json"))
    assert code == 0
    assert "left out, because it is quarantined: 1 (rw-80280fbd00d0)" in out
    left_out = shown(flywheel, "recipes", "export", str(tmp_path / "memory.json"))
    assert (left_out["quarantined"], left_out["poisoned"], left_out["erased"]) == (["rw-80280fbd00d0"], [], [])


@pytest.mark.writes
def test_what_a_rollback_quarantined_does_not_come_back_by_an_older_name(flywheel: Flywheel) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    code, out, err = flywheel("gate", "run", "--challenger", promoted, "--test", "bootstrap", "--json")
    verdict = json.loads(out)["verdict"]
    assert (code, verdict["decision"]) == (2, "hold")
    assert "left out, because it is quarantined: rw-80280fbd00d0" in err
    assert verdict["challenger"]["artifact"]["memory"]["without"] == ["rw-80280fbd00d0"]
    assert (verdict["mean_delta"], verdict["reasons"]) == (None, ["not every check is met"])
    assert flywheel("gate", "verify", "eval-2")[0] == 0


@pytest.mark.writes
def test_of_an_evaluation_the_decision_is_told_until_a_look_at_its_figures_is_paid(
    flywheel: Flywheel, tmp_path: Path
) -> None:
    promoted = shown(flywheel, "champion", "history")[1]["champion"]
    flywheel("gate", "run", "--challenger", promoted, "--test", "bootstrap")
    code, out, _ = flywheel("gate", "explain", "eval-2")
    assert (code, "not every check is met" in out, "win rate" in out) == (0, True, False)
    file = tmp_path / "verdict.svg"
    code, _, err = flywheel("gate", "explain", "eval-2", "--plot", str(file))
    assert (code, "cannot be drawn while" in err, file.exists()) == (1, True, False)
    (before,) = shown(flywheel, "gate", "ledger")
    code, out, err = flywheel("gate", "explain", "eval-2", "--spend")
    assert (code, "win rate" in out, "it judges one challenger fewer" in " ".join(err.split())) == (0, True, True)
    (after,) = shown(flywheel, "gate", "ledger")
    assert (before["inspected"], after["inspected"]) == ([], ["eval-2"])
    assert after["left"] == before["left"] - before["alpha"] // before["challengers"]
    assert flywheel("gate", "explain", "eval-2", "--spend", "--plot", str(file))[2] == ""
    assert file.stat().st_size > 10_000
