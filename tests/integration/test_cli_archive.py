"""`flywheel log archive`: what it prints, what it refuses, and the commands that read what it left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from api.cli.main import run_command
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows

Flywheel = Callable[..., tuple[int, str, str]]
END = len(golden_rows())


@pytest.fixture
def flywheel(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Flywheel:
    """Run a command on the golden log, with an archive of its own: exit code, standard output, standard error."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", database.owner_url)
    monkeypatch.setenv("FLYWHEEL_HOME", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_it_says_what_was_written_and_what_was_dropped(flywheel: Flywheel, tmp_path: Path) -> None:
    code, out, err = flywheel("log", "archive", "--before", "401", "--segment-size", "150")
    assert code == 0
    assert "400 events, 1 to 400, in 3 segments" in out
    assert "from 1 on" in out
    assert "archiving" in err
    assert sorted(p.name for p in (tmp_path / "archive" / "default").iterdir()) == ["1-150", "151-300", "301-400"]
    code, out, _ = flywheel("log", "archive", "--keep", str(END - 400), "--drop")
    assert code == 0
    assert "nothing new to archive" in out
    assert ("400 events" in out, "begins at 401" in out) == (True, True)


def test_json_holds_every_figure(flywheel: Flywheel, tmp_path: Path) -> None:
    code, out, _ = flywheel("log", "archive", "--keep", "52", "--segment-size", "400", "--drop", "--yes", "--json")
    assert code == 0
    assert json.loads(out) == {
        "written": {"first": 1, "last": END - 52, "events": END - 52, "segments": 2},
        "upto": END - 52,
        "archived_upto": END - 52,
        "dropped": END - 52,
        "live_from": END - 51,
        "folder": str(tmp_path / "archive" / "default"),
    }


def test_a_remainder_may_wait_for_the_next_time(flywheel: Flywheel) -> None:
    _, out, _ = flywheel("log", "archive", "--keep", "1", "--segment-size", "200", "--whole", "--json")
    assert json.loads(out)["archived_upto"] == 600
    _, out, _ = flywheel("log", "archive", "--keep", "1", "--segment-size", "200", "--whole", "--json")
    assert json.loads(out)["written"]["events"] == 0
    _, out, _ = flywheel("log", "archive", "--keep", "1", "--segment-size", "200", "--json")
    assert json.loads(out)["archived_upto"] == END - 1


def test_a_time_is_a_mark_and_the_nearer_mark_counts(flywheel: Flywheel) -> None:
    moment = golden_rows()[300].at
    first = next(row.position for row in golden_rows() if row.at >= moment)
    _, out, _ = flywheel("log", "archive", "--before", moment.isoformat(), "--json")
    assert json.loads(out)["archived_upto"] == first - 1
    _, out, _ = flywheel("log", "archive", "--before", "9999999", "--keep", "200", "--json")
    assert json.loads(out)["archived_upto"] == END - 200
    _, out, _ = flywheel("log", "archive", "--before", "9999999", "--json")
    assert json.loads(out)["archived_upto"] == END - 1


@pytest.mark.parametrize("mark", ["0", "1", "1999-01-01"])
def test_a_mark_before_the_first_event_archives_nothing(flywheel: Flywheel, mark: str) -> None:
    code, out, _ = flywheel("log", "archive", "--before", mark, "--drop")
    assert (code, "nothing to archive" in out) == (0, True)
    assert ("deleted 0 events" in out, "begins at 1" in out) == (True, True)


@pytest.mark.reads
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 64, "expected --before POSITION|TIME, or --keep N"),
        (("--drop",), 64, "expected --before"),
        (("--keep", "0"), 64, "--keep"),
        (("--before", "10", "--segment-size", "0"), 64, "--segment-size"),
        (("--before", "10", "--segment-size", "9999999"), 64, "--segment-size"),
        (("--before", "yesterday"), 1, "neither a position nor a time"),
        (("--before", "-5"), 1, "neither a position nor a time"),
        (("--before", "0001-01-01"), 1, "neither a position nor a time"),
    ],
)
def test_what_cannot_be_meant_is_refused(flywheel: Flywheel, options: tuple[str, ...], code: int, said: str) -> None:
    found, out, err = flywheel("log", "archive", *options)
    assert (found, out) == (code, "")
    assert said in err


def test_the_application_is_told_who_may(
    flywheel: Flywheel, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.app_role is None:
        pytest.skip("this server's application is its owner")
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", database.app_url)
    code, _, err = flywheel("log", "archive", "--keep", "10")
    assert code == 1
    assert "FLYWHEEL_OWNER_URL" in err


def test_a_place_that_cannot_hold_an_archive_is_named(
    flywheel: Flywheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FLYWHEEL_ARCHIVE", str(tmp_path / "file"))
    code, _, err = flywheel("log", "archive", "--keep", "10")
    assert code == 1
    assert str(tmp_path / "file") in err


def test_every_command_reads_on_as_before(flywheel: Flywheel, tmp_path: Path) -> None:
    asked = (
        ("log", "head"),
        ("log", "stats", "--json"),
        ("log", "tail", "-n", "300", "--json"),
        ("runs", "list", "--as-of", "200", "--json"),
        ("champion", "show", "--as-of", golden_rows()[10].at.isoformat(), "--json"),
        ("replay", "--verify", "--json"),
        ("replay", "--verify", "--to", "300", "--json"),
        ("gate", "list", "--json"),
    )
    before = [flywheel(*words)[:2] for words in asked]
    assert [code for code, _ in before] == [0] * len(asked)
    assert flywheel("log", "archive", "--before", "501", "--segment-size", "200", "--drop")[0] == 0
    assert [flywheel(*words)[:2] for words in asked] == before
    assert flywheel("log", "verify")[0] == 0
    code, out, _ = flywheel("log", "export", str(tmp_path / "log.gz"), "--json")
    assert (code, json.loads(out)["events"]) == (0, END)


def test_a_segment_that_is_gone_is_named_by_what_reads_it(flywheel: Flywheel, tmp_path: Path) -> None:
    flywheel("log", "archive", "--before", "501", "--segment-size", "200", "--drop")
    shutil.rmtree(tmp_path / "archive" / "default" / "201-400")
    code, _, err = flywheel("log", "verify")
    assert code == 1
    assert "Positions 201 to 400 were dropped" in err
    assert "FLYWHEEL_ARCHIVE" in err
    assert flywheel("log", "tail", "-n", "20")[0] == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_verify_names_the_file_of_a_segment_that_is_damaged_and_the_way_out(
    workers: str, flywheel: Flywheel, tmp_path: Path
) -> None:
    flywheel("log", "archive", "--before", "501", "--segment-size", "200", "--drop")
    path = tmp_path / "archive" / "default" / "201-400" / "runs.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    code, _, err = flywheel("log", "verify", "--workers", workers)
    assert code == 1
    assert f"{path.parent} is damaged: the SHA-256 of runs.parquet" in err
    assert "Restore its folder from a copy" in err
