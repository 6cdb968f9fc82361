"""A site that is not ours: the tutorial word by word, and the commands that must work on it as on a bundled one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.cli.main import run_command
from tests.conftest import Database
from tests.own_site import PORT, TOKEN, OwnSite, blocks, serve_own_site

Flywheel = Callable[..., tuple[int, str, str]]


@pytest.fixture
def flywheel(
    empty_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Flywheel:
    """Run a command on an empty log, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    with serve_own_site(tmp_path_factory.mktemp("shop")) as site:
        yield site


def commands() -> list[str]:
    """The commands of the page that Flywheel runs, in order."""
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("flywheel ")]


@pytest.mark.costly("a page's promise: a strange site from its address to a verdict, with every run of a real gate")
def test_the_tutorial_leads_from_an_address_to_a_verdict_and_back(
    flywheel: Flywheel, shop: OwnSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, shop.token)
    said: dict[str, str] = {}
    for line in commands():
        words = shlex.split(line.replace(PORT, shop.port))
        code, out, err = flywheel(*words[1:])
        assert code == 0, (line, out, err)
        said[" ".join(words[1:3])] = out
        if words[1:3] == ["suite", "new"]:
            assert 'id = "shop.buy"' in (tmp_path / "shop.toml").read_text()
            (tmp_path / "shop.toml").write_text(shop.suite.read_text())
    assert list(said) == [
        "suite new",
        "suite check",
        "env add",
        "env probe",
        "run --site",
        "gate explain",
        "champion show",
        "champion back",
    ]
    assert "promote" in said["gate explain"]
    _, history, _ = flywheel("champion", "history", "--json")
    assert len(json.loads(history)) == 3
    _, suites, _ = flywheel("suite", "list", "--json")
    own = [row for row in json.loads(suites) if row["version"]]
    assert [(row["suite"], row["version"], row["environment"]) for row in own] == [("shop", 1, "shop")]
