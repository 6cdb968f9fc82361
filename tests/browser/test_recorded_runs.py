"""A run in Chromium as the log has it: its executor, its pages, its pictures; and the whole loop by command."""

from __future__ import annotations

import json

import pytest

from agents.envs.clients.client import EnvClient
from agents.executors.browser import BrowserExecutor, Chromium
from agents.rollouts.play import Means
from agents.rollouts.record import rollout, stopwatch
from api.cli.main import run_command
from eventlog.blobs import MemoryBlobs
from eventlog.events import StepTaken
from tests.conftest import Database
from tests.integration.test_rollouts import CANONICAL_SEED, DRIFTED_SEED, RULE, jobs
from tests.unit.test_agent_samples import BOOK, a_store

pytestmark = pytest.mark.browser


def pictures_of(run_seed: int, chromium: Chromium, client: EnvClient) -> tuple[list[StepTaken], list[str], MemoryBlobs]:
    """Record one run: its steps, the types of its events, and its blobs."""
    store, blobs = a_store(), MemoryBlobs()
    job = jobs([run_seed])[1]
    rollout(job, store, blobs, Means(client, BOOK, RULE, stopwatch, BrowserExecutor(chromium)))
    events = [recorded.event for recorded in store.read()]
    assert [event.executor for event in events if event.type == "RunStarted"] == ["browser"]
    return [event for event in events if event.type == "StepTaken"], [event.type for event in events], blobs


def test_a_recorded_run_names_its_pictures_and_two_of_a_seed_name_the_same(
    chromium: Chromium, marketplace: EnvClient
) -> None:
    steps, types, blobs = pictures_of(CANONICAL_SEED, chromium, marketplace)
    assert types[-1] == "RewardGraded"
    shown = [step.screenshot for step in steps if step.http_status is not None]
    assert len(shown) > 3
    for digest in shown:
        assert digest is not None
        picture = blobs.get(digest)
        assert (picture.media_type, picture.body[:4]) == ("image/png", b"\x89PNG")
    again, _, _ = pictures_of(CANONICAL_SEED, chromium, marketplace)
    assert [(step.observation, step.screenshot) for step in again] == [
        (step.observation, step.screenshot) for step in steps
    ]


def test_recovery_after_a_failed_run_in_a_browser_proposes_as_over_http(
    chromium: Chromium, marketplace: EnvClient
) -> None:
    _, types, _ = pictures_of(DRIFTED_SEED, chromium, marketplace)
    assert "RewriteProposed" in types


def test_the_command_goes_round_in_chromium(
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    asked = ["run", "--executor", "browser", "--cluster", "navigation", "--rounds", "1", "--seeds", "1"]
    assert run_command([*asked, "--max-parallel", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 4
    assert run_command(["log", "tail", "-n", "1000", "--json"]) == 0
    assert '"executor": "browser"' in capsys.readouterr().out
