from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from agents.envs.errors import BrowserMissing
from agents.executors.browser import Chromium
from agents.executors.browser.errors import BrowserNotStarted
from api.settings import Settings, read_settings
from api.sweeps.executors import Way, executor_of


def test_without_a_chromium_the_way_out_is_said() -> None:
    with pytest.raises(BrowserMissing, match="none is on the PATH") as caught, Chromium(None):
        pass
    assert "apt-get install chromium" in str(caught.value)
    assert "--executor plan" in str(caught.value)


def test_a_chromium_that_is_not_where_it_was_named_is_said(tmp_path: Path) -> None:
    named = tmp_path / "chromium"
    with (
        pytest.raises(BrowserMissing, match=f"'{named}' cannot be run"),
        executor_of(Way.BROWSER, Settings(chromium=named)),
    ):
        pass


def test_without_playwright_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BrowserMissing, match=r"pip install '.\[browser\]'"), Chromium(Path("/bin/true")):
        pass


def test_a_program_that_is_no_browser_does_not_start(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(BrowserNotStarted, match=str(program)), Chromium(program):
        pass


def test_the_first_on_the_path_is_taken_unless_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FLYWHEEL_CHROMIUM", raising=False)
    assert read_settings().browser is None
    found = tmp_path / "google-chrome"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    assert read_settings().browser == found
    monkeypatch.setenv("FLYWHEEL_CHROMIUM", "/opt/chromium")
    assert read_settings().browser == Path("/opt/chromium")


def test_plans_over_http_need_no_browser() -> None:
    with executor_of(Way.PLAN, Settings(chromium=Path("/nowhere"))) as executor:
        assert executor.name == "plan"
