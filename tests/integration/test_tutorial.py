"""The tutorial of ten minutes, word by word: its commands, its script, and the pages that it sends to."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.cli.main import run_command
from api.house import House
from projections.groups import find_group
from tests.browser.dashboard import serve_pages
from tests.conftest import Database

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
Flywheel = Callable[..., tuple[int, str, str]]


def blocks(kind: str) -> list[str]:
    """The blocks of the page in this language, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.costly("a page's promise: from an empty log to a verdict and back, with every run of a real gate")
def test_the_tutorial_leads_from_an_empty_log_to_a_verdict_and_back(
    empty_database: Database,
    empty_house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.chdir(tmp_path)
    (script,) = blocks("python")
    (tmp_path / "own_runs.py").write_text(script, "utf-8")
    said: dict[str, str] = {}
    for line in (line for block in blocks("sh") for line in block.splitlines()):
        words = shlex.split(line)
        assert words[0] == "flywheel", line
        code = run_command(words[1:])
        printed = capsys.readouterr()
        assert code == 0, (line, printed.out, printed.err)
        said[" ".join(words[1:3])] = printed.out
        if words[1:3] == ["token", "issue"]:
            _send_runs(empty_house, tmp_path / "own_runs.py", printed.out.strip())
    assert "promote" in said["gate explain"]
    assert "order a coffee" in said["failures list"] or "order" in said["failures list"]
    assert "ext-order-0" in said["runs show"]
    assert (tmp_path / "rows.ndjson").stat().st_size > 0
    assert "identical" in said["replay --verify"]
    assert run_command(["champion", "history", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def _send_runs(house: House, script: Path, token: str) -> None:
    with serve_pages(house) as address:
        told = {**os.environ, "FLYWHEEL_URL": address, "FLYWHEEL_TOKEN": token}
        done = subprocess.run([sys.executable, str(script)], env=told, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "ext-order-0 passed\next-order-1 failed\n"), done.stderr
    group = find_group(house.views(), "ext-order")
    assert group is not None
    assert len(group.siblings) == 2
    with TestClient(create_app(house)) as browser:
        assert browser.get("/ui/groups/ext-order", follow_redirects=False).status_code == 303
