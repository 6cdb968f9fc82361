"""Commands with --plot: what they draw, and what cannot be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.cli.main import run_command
from eventlog.database import open_engine
from tests.browser import dashboard
from tests.browser.dashboard import PIECE
from tests.conftest import Database, house_on
from tests.shared import Copies


@pytest.fixture(scope="module")
def planted(copies: Copies) -> Iterator[Database]:
    """A log that has something of everything."""
    with copies() as make:
        database = make("seeded")
        engine = open_engine(database.app_url)
        dashboard.plant(house_on(engine, database))
        yield database
        engine.dispose()


@pytest.fixture
def flywheel(planted: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a command on the planted log: its exit code."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", planted.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", planted.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(planted.keys))
    return lambda *words: run_command(list(words))


def texts(file: Path) -> str:
    """The words of a picture, which are drawn as outlines with their text in comments."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))  # noqa: S314 it is our own
    tree = ET.parse(file, parser)  # noqa: S314
    comments = (each for each in tree.iter() if each.tag is ET.Comment)  # type: ignore[comparison-overlap]
    return " ".join(each.text or "" for each in comments)


def test_success_over_the_log_is_drawn(flywheel: Callable[..., int], tmp_path: Path) -> None:
    file = tmp_path / "success.svg"
    assert flywheel("outcomes", "--plot", str(file)) == 0
    assert "marketplace: graded runs that passed, with 95 % intervals" in texts(file)
    first = file.read_bytes()
    assert flywheel("outcomes", "--plot", str(file)) == 0
    assert file.read_bytes() == first


def test_uplift_of_pieces_is_drawn(
    flywheel: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "uplift.svg"
    assert flywheel("rewrites", "list", "--plot", str(file)) == 0
    assert f"{PIECE} (12)" in texts(file)
    capsys.readouterr()
    assert flywheel("hints", "list", "--plot", str(tmp_path / "none.png")) == 1
    assert "There is nothing to draw" in capsys.readouterr().err
    assert not (tmp_path / "none.png").exists()


def test_curves_of_a_training_are_drawn(
    flywheel: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flywheel("checkpoint", "list", "--json") == 0
    checkpoint = capsys.readouterr().out.partition('"checkpoint": "')[2][:12]
    file = tmp_path / "curves.png"
    assert flywheel("checkpoint", "show", checkpoint, "--plot", str(file)) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert flywheel("checkpoint", "show", checkpoint, "--plot", str(tmp_path / "curves.svg")) == 0
    assert "clip fraction" in texts(tmp_path / "curves.svg")


def test_a_file_that_is_no_picture_is_refused_before_anything_is_drawn(
    flywheel: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("outcomes",), ("rewrites", "list"), ("hints", "list")):
        assert flywheel(*words, "--plot", str(tmp_path / "picture.pdf")) == 1
        assert ".svg or .png" in " ".join(capsys.readouterr().err.split())
    assert flywheel("outcomes", "--plot", "x.svg", "--server", "http://127.0.0.1:1") == 64
    assert flywheel("outcomes", "--plot", "x.svg", "--sweep", "s1") == 64
    assert list(tmp_path.iterdir()) == []
