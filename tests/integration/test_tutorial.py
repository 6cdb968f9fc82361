"""The tutorial of ten minutes, word by word: its commands, its script, and what its lists say to do in a browser."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from agents.envs.browsers import usable
from api.cli.main import run_command
from api.house import House
from api.settings import read_settings
from projections.groups import find_group
from tests.browser.dashboard import serve_pages
from tests.conftest import Database

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PART = re.compile(r"^```(\w+)\n(.*?)^```|^- ([^\n]+)$", re.DOTALL | re.MULTILINE)
"""A block of the page with its language, or an item of a list."""


def parts() -> Iterator[tuple[str, str]]:
    """The page in order: `sh` and `python` blocks, and the items of its lists as `do`. Other blocks are for people."""
    for kind, block, item in PART.findall(PAGE.read_text("utf-8")):
        if item:
            yield "do", item
        elif kind in {"sh", "python"}:
            yield kind, block


def do(page: Page, sentence: str, token: str) -> None:
    """Do what a sentence says, or see what it says is to be seen."""
    match re.split(r"[*`“”]+", sentence):
        case ["Type ", text, " into ", label, "."]:
            page.get_by_label(label).first.fill(text)
        case ["Type the token into ", label, "."]:
            page.get_by_label(label).fill(token)
        case ["Type what the page asks for into ", label, "."]:
            page.get_by_label(label).fill(page.locator("label[for=confirmation] code").inner_text())
        case ["Click ", name, "."]:
            link, button = (page.get_by_role(role, name=name, exact=True) for role in ("link", "button"))
            with page.expect_navigation():
                link.or_(button).first.click()
        case ["Click the first name of the table."]:
            with page.expect_navigation():
                page.locator("main tbody th a").first.click()
        case ["Tick ", label, "."]:
            page.get_by_label(label).check()
        case ["See ", text, "" | "."]:
            expect(page.locator("main").get_by_text(text).first).to_be_visible()
        case _:
            raise AssertionError(f"{sentence!r} is no sentence that this test can do")


@contextmanager
def open_page(address: str, complaints: list[str]) -> Iterator[Callable[[str, str], None]]:
    """A function that does what a sentence says in Chromium, which has a thread of its own: its driver runs a loop."""
    with ThreadPoolExecutor(max_workers=1) as thread:

        def start() -> tuple[Any, Page]:
            driver = sync_playwright()
            types = driver.__enter__()
            browser = types.chromium.launch(executable_path=usable(read_settings().browser), args=["--no-sandbox"])
            page = browser.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(address)
            return driver, page

        driver, page = thread.submit(start).result()
        try:
            yield lambda sentence, token: thread.submit(do, page, sentence, token).result()
        finally:
            thread.submit(driver.__exit__).result()


@pytest.mark.browser
@pytest.mark.costly("a page's promise: from an empty log to a verdict and back, a real gate, and every page it names")
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
    said: dict[str, str] = {}
    complaints: list[str] = []
    with serve_pages(empty_house) as address, open_page(address, complaints) as look:
        for kind, text in parts():
            match kind:
                case "python":
                    (tmp_path / "own_runs.py").write_text(text, "utf-8")
                    _send_runs(address, tmp_path / "own_runs.py", said["token issue"].strip())
                case "sh":
                    for line in text.splitlines():
                        words = shlex.split(line)
                        assert words[0] == "flywheel", line
                        code = run_command(words[1:])
                        printed = capsys.readouterr()
                        assert code == 0, (line, printed.out, printed.err)
                        said[" ".join(words[1:3])] = printed.out
                case _:
                    look(text, re.findall(r"fw_[\w-]+", said["db up"])[0])
    assert complaints == []
    assert "promote" in said["gate explain"]
    assert "order" in said["failures list"]
    assert "ext-order-0" in said["runs show"]
    assert (tmp_path / "rows.ndjson").stat().st_size > 0
    assert "identical" in said["replay --verify"]
    group = find_group(empty_house.views(), "ext-order")
    assert group is not None
    assert len(group.siblings) == 2
    assert run_command(["champion", "history", "--json"]) == 0
    moves = json.loads(capsys.readouterr().out)
    assert [move["by"] for move in moves] == ["genesis", "gate", "rollback"]
    assert moves[-1]["actor"] == "dashboard:admin"


def test_a_sentence_that_nobody_can_do_is_noticed() -> None:
    done = [text for kind, text in parts() if kind == "do"]
    assert len(done) > 20
    assert [text for text in done if not text.startswith(("Type ", "Click ", "Tick ", "See "))] == []


def _send_runs(address: str, script: Path, token: str) -> None:
    told = {**os.environ, "FLYWHEEL_URL": address, "FLYWHEEL_TOKEN": token}
    done = subprocess.run([sys.executable, str(script)], env=told, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ext-order-0 passed\next-order-1 failed\n"), done.stderr
