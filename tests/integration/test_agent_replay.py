"""Runs of agents of one's own are played again by the agent, without their site and without a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.executors.outside.agent_spec import read_agent
from agents.executors.site_record import read_site_record
from api.cli.main import run_command
from api.errors import NotReplayable
from api.history.agent_replay import replay_agent
from api.house import House
from api.settings import Settings
from eventlog.events import RunFinished, SiteRecorded
from tests.conftest import Database
from tests.model_server import model_server
from tests.own_agent import DEAF, choose_link, commands, model_settings, write_own_agent
from tests.own_site import TOKEN, serve_own_site

Flywheel = Callable[..., tuple[int, str]]
Sweep = Callable[..., str]
AGENT = ("--agent", "python:agent:play")
SILENT = """
def play(task):
    task.step("look", argument=task.url, text="nothing at " + task.url, intent="look at " + task.url)
    assert task.model.name == "my-model"
"""
"""An agent that asks neither its site nor a model."""

HANGS = """
import time
from urllib.request import urlopen

def play(task):
    for page in range(3):
        urlopen(task.url).read()
        task.step("look", argument=str(page))
        time.sleep(0.0 if page < 1 or "fast" in FOLDER else 600)
"""
"""An agent that is ended after its second page; in another folder it goes on."""


@pytest.fixture
def flywheel(
    empty_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Flywheel:
    """Run a command on an empty log, in an empty folder: exit code, and what it printed in one line."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, " ".join(f"{printed.out} {printed.err}".replace("│", " ").split())

    return run


@pytest.fixture
def sweep(flywheel: Flywheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_house: House) -> Sweep:
    """Play one run of an agent, on a site and before a model that are gone afterwards. Returns the run."""
    write_own_agent(tmp_path, has_client=False)
    (tmp_path / "silent.py").write_text(SILENT, "utf-8")
    (tmp_path / "deaf.py").write_text(DEAF, "utf-8")
    (tmp_path / "site").mkdir()

    def play_one(*options: str, keeps: bool = True) -> str:
        with serve_own_site(tmp_path / "site") as shop, model_server(choose_link) as server:
            for name, value in {**model_settings(server.url), TOKEN: shop.token}.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("FLYWHEEL_RECORD_SITE", str(int(keeps)))
            for words in commands(shop)[:2]:
                assert flywheel(*words)[0] == 0
            code, said = flywheel("rollout", "sweep", "shop", *options, "--seeds", "0", "--siblings", "1")
            assert code == 0, said
        (end,) = [each.event for each in empty_house.store.read(types=["RunFinished"])]
        assert isinstance(end, RunFinished)
        return end.run

    return play_one


def test_an_agent_plays_its_run_again_from_the_record_alone(
    sweep: Sweep, flywheel: Flywheel, empty_house: House, tmp_path: Path
) -> None:
    run = sweep(*AGENT)
    head = empty_house.store.head()
    code, said = flywheel("runs", "replay", run, *AGENT)
    assert code == 0, said
    assert "told, requests, actions and calls, steps, end" in said
    assert "steps: " not in said
    assert empty_house.store.head() == head
    code, said = flywheel("runs", "replay", run)
    assert "steps: name the agent to play it again" in said
    (kept,) = [each.event for each in empty_house.store.read(types=["SiteRecorded"])]
    assert isinstance(kept, SiteRecorded)
    record = read_site_record(kept.record, empty_house.blobs.get(kept.record))
    calls = [each.event for each in empty_house.store.read(types=["ModelCalled"])]
    assert len(record.exchanges["model"]) == len(calls) >= 1
    assert kept.answers == len(record.exchanges["pages"]) + len(calls)
    assert b"fw-run-" not in empty_house.blobs.get(kept.record).body
    own = tmp_path / "agent.py"
    own.write_text(own.read_text("utf-8").replace("Answer with one link.", "Answer with a link."), "utf-8")
    code, said = flywheel("runs", "replay", run, *AGENT)
    assert code == 1
    assert "diverges first in call 0" in said
    assert "Answer with one link." in said
    assert "Answer with a link." in said
    assert "from the record alone: that this is the agent of the record" in said


def test_an_agent_that_does_less_or_more_than_its_record_is_seen_to(
    sweep: Sweep, flywheel: Flywheel, tmp_path: Path
) -> None:
    run = sweep(*AGENT)
    code, said = flywheel("runs", "replay", run, "--agent", "python:silent:play")
    assert code == 1
    assert "diverges first in what it did not ask for any more" in said
    own = tmp_path / "agent.py"
    own.write_text(own.read_text("utf-8").replace("    page = task.url\n", '    page = task.url + "more"\n'), "utf-8")
    code, said = flywheel("runs", "replay", run, *AGENT)
    assert code == 1
    assert "diverges first in request 0" in said
    assert "/more" in said


def test_an_agent_that_is_told_by_its_model_is_told_so_again(sweep: Sweep, flywheel: Flywheel) -> None:
    agent = ("--agent", "python:deaf:play", "--advice", "proxy")
    run = sweep(*agent)
    assert flywheel("runs", "replay", run, *agent)[0] == 0
    code, said = flywheel("runs", "replay", run, *agent[:2])
    assert code == 0  # nothing was to be told
    assert "its option or its files are other ones" in said
    code, said = flywheel("runs", "replay", run, "--advice", "proxy")
    assert code != 0
    assert "add --agent or leave it out" in said


def test_an_address_of_the_pages_is_another_one_each_time_and_no_difference(sweep: Sweep, flywheel: Flywheel) -> None:
    agent = ("--agent", "python:silent:play")
    run = sweep(*agent)
    code, said = flywheel("runs", "replay", run, *agent)
    assert code == 0, said


def test_a_run_of_which_no_site_was_kept_cannot_be_played_again(sweep: Sweep, flywheel: Flywheel) -> None:
    run = sweep(*AGENT, keeps=False)
    code, said = flywheel("runs", "replay", run, *AGENT)
    assert code != 0
    assert "set FLYWHEEL_RECORD_SITE=1" in said
    code, said = flywheel("runs", "replay", run)
    assert "sweep with FLYWHEEL_RECORD_SITE=1" in said
    code, said = flywheel("runs", "replay", "nobody", *AGENT)
    assert code != 0
    assert "nobody" in said


def test_a_run_of_another_executor_is_played_by_no_agent(house: House, tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(SILENT, "utf-8")
    agent = read_agent("python:silent:play", tmp_path)
    ends = (each.event for each in house.store.read(types=["RunFinished"]))
    run = next(end.run for end in ends if isinstance(end, RunFinished))
    with pytest.raises(NotReplayable, match="its executor is 'plan', and --agent plays agents"):
        replay_agent(house, Settings(), run, agent)


def test_a_run_that_was_ended_at_a_limit_is_compared_as_far_as_its_record_goes(
    sweep: Sweep, flywheel: Flywheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_AGENT_SECONDS", "4")
    hangs = tmp_path / "hangs.py"
    hangs.write_text(HANGS.replace("FOLDER", "''"), "utf-8")
    run = sweep("--agent", "python:hangs:play")
    for seconds, changed in (("4", False), ("4", True)):
        monkeypatch.setenv("FLYWHEEL_AGENT_SECONDS", seconds)
        if changed:  # it meets no limit now, and asks for a page more
            hangs.write_text(HANGS.replace("FOLDER", "'fast'"), "utf-8")
        code, said = flywheel("runs", "replay", run, "--agent", "python:hangs:play")
        assert code == 0, said
        assert "end: it was stopped at a limit" in said
    hangs.write_text(HANGS.replace("FOLDER", "'fast'").replace("task.url)", "task.url + 'other')"), "utf-8")
    code, said = flywheel("runs", "replay", run, "--agent", "python:hangs:play")
    assert code == 1
    assert "diverges first in request 0" in said
