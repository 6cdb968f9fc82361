"""What bad input gets: one sentence that names the thing and the way out, the right exit code, nothing half-written."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text

from api import embedded
from api.cli.main import run_command
from tests.conftest import GOLDEN, Database
from tests.integration.test_cli import Flywheel, flywheel
from tests.strange import append

pytestmark = pytest.mark.reads

__all__ = ["flywheel"]

NAMES = [
    (("runs", "show", "nope"), "No run is called 'nope'"),
    (("runs", "list", "--sweep", "nope"), "No sweep or evaluation is called 'nope'"),
    (("rewrites", "show", "nope"), "No rewrite is called 'nope'"),
    (("benchmark", "show", "nope"), "No benchmark is called 'nope'"),
    (("gate", "explain", "eval-9"), "No evaluation is called 'eval-9'"),
    (("gate", "run", "--challenger", "nope"), "'nope' is not the name of an artifact"),
    (("artifact", "show", "ck-12345678@4"), "No checkpoint is called"),
    (("artifact", "show", "base@999999"), "Position 999999 "),
    (("champion", "show", "--as-of", "yesterday"), "neither a position nor a time"),
    (("champion", "show", "--as-of", "999999"), "have read up to"),
    (("champion", "point", "base", "--reason", "x"), "'base' is not the name of an artifact"),
    (("champion", "back", "--reason", ""), "reason"),
    (("replay", "--projection", "nope"), "no projection named 'nope'"),
    (("dataset", "show", "00ff"), "00ff"),
    (("token", "revoke", "nope", "--reason", "x"), "nope"),
    (("run", "--site", "nope"), "nope"),
    (("token", "issue", ""), "token is ''"),
    (("token", "issue", "x" * 300), "token is"),
    (("log", "export", "/nonexistent/log.gz"), "/nonexistent/log.gz"),
    (("log", "export", "/"), "is a folder"),
]


@pytest.mark.parametrize(
    ("words", "said"), NAMES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_an_unknown_name_is_one_sentence_and_exit_code_1(words: tuple[str, ...], said: str, flywheel: Flywheel) -> None:
    code, before, _ = flywheel("log", "head")
    assert code == 0
    code, _, err = flywheel(*words)
    assert code == 1
    assert said in err
    assert "Traceback" not in err
    assert flywheel("log", "head")[1] == before


USAGE = [
    ("nope",),
    ("runs", "nope"),
    ("runs", "show"),
    ("runs", "list", "--limit", "many"),
    ("runs", "list", "--limit", "0"),
    ("champion", "back"),
    ("run", "--loop", "sideways"),
    ("run", "--rounds", "0"),
    ("run", "--url", "http://localhost:1"),
    ("log", "import", "no-such-file"),
    ("dataset", "build", "--min-score", "2"),
    ("dataset", "build", "--environment", ""),
    ("dataset", "export", "00ff00ff", "/nonexistent/rows.parquet"),
    ("log", "tail", "--type", "Nope"),
    ("runs", "list", "--status", "bogus"),
    ("hints", "list", "--status", "bogus"),
    ("champion", "show", "--as-of", "0"),
]


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_a_usage_error_is_exit_code_64(words: tuple[str, ...], flywheel: Flywheel) -> None:
    code, _, err = flywheel(*words)
    assert code == 64
    assert "Try: flywheel" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("champion", "show", "--as-of", "0"),
            64,
            "position 0 is before the first event of the log; expected 1 or a later one",
        ),
        (
            ("dataset", "export", "00ff00ff", "/nonexistent/rows.parquet"),
            64,
            "there is no folder /nonexistent; expected one that exists",
        ),
        (
            ("dataset", "export", "00ff00ff", "/proc/rows.parquet"),
            1,
            "/proc/rows.parquet: No such file or directory; choose another one",
        ),
    ],
    ids=["before the first", "no folder", "unwritable"],
)
def test_a_place_that_cannot_be_is_named_with_what_was_expected(
    words: tuple[str, ...], code: int, said: str, flywheel: Flywheel
) -> None:
    found, _, err = flywheel(*words)
    assert (found, said in " ".join(err.split())) == (code, True), err


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Flywheel]:
    """Run a command with a home of its own and no database."""
    for name in ("FLYWHEEL_DATABASE_URL", "FLYWHEEL_OWNER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYWHEEL_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    yield run
    run_command(["db", "down"])


def failing(bare: Flywheel, *arguments: str) -> dict[str, str]:
    """What doctor says of the checks that fail."""
    code, out, _ = bare("doctor", "--json", *arguments)
    assert code == 1
    return {check["name"]: check["found"] for check in json.loads(out) if not check["ok"]}


def test_a_home_that_was_never_set_up_says_db_up(bare: Flywheel, tmp_path: Path) -> None:
    code, _, err = bare("runs", "list")
    assert code == 1
    assert "flywheel db up" in err
    assert "flywheel db up" in failing(bare)["database"]
    assert not (tmp_path / "home").exists()


def test_an_unreachable_database_names_the_variable(bare: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    code, _, err = bare("log", "head")
    assert code == 1
    assert "FLYWHEEL_DATABASE_URL" in err
    assert "FLYWHEEL_DATABASE_URL" in failing(bare)["database"]


@pytest.mark.parametrize("url", ["mysql://x/y", "no url at all", "postgresql://h:notaport/db"])
def test_a_url_that_is_none_is_one_sentence(url: str, bare: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", url)
    code, _, err = bare("log", "head")
    assert code == 1
    assert "Traceback" not in err
    assert err.startswith("flywheel: ")


def test_a_home_that_is_not_writable_is_named(bare: Flywheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file, not a folder")
    monkeypatch.setenv("FLYWHEEL_HOME", str(blocked / "home"))
    code, _, err = bare("db", "up")
    assert code == 1
    assert "FLYWHEEL_HOME" in err
    assert "FLYWHEEL_HOME" in failing(bare)["home"]


def test_a_port_in_use_is_named(flywheel: Flywheel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = flywheel("serve", "--port", port)
        assert code == 1
        assert port in err
        assert "--port" in err
        code, out, _ = flywheel("doctor", "--json", "--port", port)
        assert code == 1
        assert "--port" in next(check["found"] for check in json.loads(out) if check["name"] == "port")


@pytest.mark.parametrize(("name", "value"), [("FLYWHEEL_PORT", "many"), ("FLYWHEEL_PROJECT", "Bad Name")])
def test_a_bad_setting_is_named(name: str, value: str, flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    code, _, err = flywheel("log", "head")
    assert code == 1
    assert value in err


@pytest.mark.writes
def test_a_project_that_was_never_migrated_says_db_migrate(flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_PROJECT", "other")
    code, _, err = flywheel("log", "head")
    assert code == 1
    assert "flywheel db migrate" in err
    assert flywheel("db", "migrate")[0] == 0
    assert flywheel("log", "head")[0] == 0


def test_a_host_that_is_none_of_ours_is_named(flywheel: Flywheel) -> None:
    code, out, err = flywheel("serve", "--host", "999.1.1.1")
    assert code == 1
    assert "999.1.1.1" in err
    assert out == ""


@pytest.mark.writes
def test_a_log_is_imported_into_a_project_that_does_not_exist_yet(
    flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = flywheel("log", "import", str(GOLDEN))
    assert code == 1
    assert "FLYWHEEL_PROJECT" in err
    monkeypatch.setenv("FLYWHEEL_PROJECT", "second")
    assert flywheel("log", "import", str(GOLDEN))[0] == 0
    assert flywheel("log", "verify")[0] == 0


@pytest.mark.writes
def test_a_newer_schema_says_upgrade(flywheel: Flywheel, database: Database) -> None:
    change(database, "UPDATE flywheel_default.migration SET version_num = '9999'")
    code, _, err = flywheel("log", "head")
    assert code == 1
    assert "upgrade flywheel" in err
    code, out, _ = flywheel("doctor")
    assert code == 1
    assert "upgrade flywheel" in " ".join(out.split())


@pytest.mark.writes
def test_an_event_type_of_a_newer_flywheel_is_named_with_its_position(flywheel: Flywheel, database: Database) -> None:
    append(database, "FutureThing", {})
    for words in (("log", "tail"), ("doctor",)):
        code, out, err = flywheel(*words)
        assert code == 1
        assert "FutureThing" in out + err
    assert flywheel("runs", "list")[0] == 0


@pytest.mark.writes
def test_a_corrupt_row_parks_the_projections_that_read_it_and_no_other(flywheel: Flywheel, database: Database) -> None:
    append(database, "RewardGraded", {"run": 7})
    code, _, err = flywheel("runs", "list")
    assert code == 1
    assert "parked at position" in err
    code, out, _ = flywheel("doctor", "--json")
    assert code == 1
    failed = {check["name"]: check["found"] for check in json.loads(out) if not check["ok"]}
    assert "cannot be read" in failed["log"]
    assert "parked" in failed["projections"]


@pytest.mark.writes
def test_a_wrong_token_fails_the_doctor(flywheel: Flywheel, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = flywheel("token", "issue", "mine")
    assert code == 0
    monkeypatch.setenv("FLYWHEEL_TOKEN", out.strip())
    assert flywheel("doctor", "--port", "0")[0] == 0
    monkeypatch.setenv("FLYWHEEL_TOKEN", "fw_wrong")
    code, out, _ = flywheel("doctor", "--json", "--port", "0")
    assert code == 1
    assert "not accepted" in next(check["found"] for check in json.loads(out) if check["name"] == "token")


def change(database: Database, statement: str) -> None:
    """Run a statement as the schema's owner."""
    engine = create_engine(database.owner_url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("rewrites", "show", "x"), "rewrites/x"),
        (("recipes", "show", "x"), "recipes/x"),
        (("substrates", "show", "x"), "substrates/x"),
        (("gate", "explain", "x"), "verdicts/x"),
        (("gate", "ledger", "--benchmark", "x"), "benchmarks/x/ledger"),
        (("dataset", "show", "a" * 64), f"datasets/{'a' * 64}"),
        (("checkpoint", "show", "a" * 64), f"checkpoints/{'a' * 64}"),
    ],
)
def test_what_is_not_there_is_told_alike_with_one_way_out_for_both(
    words: tuple[str, ...], path: str, client: TestClient, flywheel: Flywheel
) -> None:
    message = client.get(f"/v1/{path}").json()["error"]["message"]
    code, _, err = flywheel(*words)
    assert (code, err.removeprefix("flywheel: ").strip()) == (1, message)
    assert re.search(r"`flywheel \w+ list` or GET /v1/\w+", message)


def test_a_refused_write_is_told_apart_from_a_database_that_does_not_answer(
    flywheel: Flywheel, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    joint = "&" if "?" in database.app_url else "?"
    read_only = "options=-cdefault_transaction_read_only%3Don"
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", f"{database.app_url}{joint}{read_only}")
    code, _, err = flywheel("token", "issue", "mine")
    assert (code, "refused a statement" in err, "does not answer" in err) == (1, True, False)


def test_the_doctor_says_that_a_database_with_data_is_not_running(
    bare: Flywheel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopped = embedded.Status(
        running=False, pid=None, version="17", data=tmp_path, sockets=tmp_path, port=5432, started_at=None
    )
    monkeypatch.setattr("api.embedded.status", lambda _home: stopped)
    code, out, _ = bare("doctor", "--json", "--port", "0")
    found = next(check["found"] for check in json.loads(out) if check["name"] == "database")
    assert (code, "not running" in found, "db up" in found) == (1, True, True)
