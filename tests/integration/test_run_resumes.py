"""`flywheel run` on an empty log, killed again and again: it completes, and nothing is lost or counted twice."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from api.house import House
from eventlog.chain import GENESIS, verified
from eventlog.events import RewriteLost, RewriteWon, RunFinished, RunStarted
from eventlog.postgres import PostgresStore
from eventlog.store import START
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.compare import compare
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.conftest import Database
from tests.recomputing import every_verdict_recomputes

pytestmark = pytest.mark.timeout(400)
COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()", "run", "--rule", "seeds", "--json"]
COMMAND += ["--cluster", "navigation", "--verdicts", "1"]


@pytest.fixture
def environment(empty_database: Database) -> dict[str, str]:
    """What a child process is told."""
    urls = {"FLYWHEEL_DATABASE_URL": empty_database.app_url, "FLYWHEEL_OWNER_URL": empty_database.owner_url}
    return {**os.environ, **urls, "PYTHONPATH": str(Path(__file__).parents[2])}


def killed_when_head_passes(position: int, store: PostgresStore, environment: dict[str, str]) -> None:
    """Start the command and kill -9 it as soon as the log has grown so far."""
    child = subprocess.Popen(COMMAND, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while store.head() < position and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    child.kill()
    child.wait()


def completed(environment: dict[str, str]) -> dict[str, object]:
    """Run the command to its end; its summary."""
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def test_a_run_killed_again_and_again_completes_and_counts_nothing_twice(
    environment: dict[str, str], empty_engine: Engine, empty_house: House
) -> None:
    store = PostgresStore(empty_engine)
    for position in (2, 200, 700, 1400):
        killed_when_head_passes(position, store, environment)
    summary = completed(environment)
    assert summary["decision"] == "promote"

    events = [recorded.event for recorded in store.read()]
    started = collections.Counter(event.run for event in events if isinstance(event, RunStarted))
    finished = collections.Counter(event.run for event in events if isinstance(event, RunFinished))
    credited = collections.Counter(event.run for event in events if isinstance(event, RewriteWon | RewriteLost))
    treated = {event.run for event in events if isinstance(event, RunStarted) and event.spec.candidate is not None}
    assert started == finished
    assert set(started.values()) == {1}
    assert credited == collections.Counter(treated)
    assert len(list(verified(store.stored(), after=START, previous=GENESIS))) == store.head()
    assert all(found.is_identical for found in compare(empty_house.views()))
    # the same as without any kill: promoted by the oracle's outcomes in the order of the sweep
    promoted = {
        key: (s.wins, s.losses) for key, s in empty_house.views().find(REWRITES).items() if s.status == "promoted"
    }
    assert promoted == {"rw-80280fbd00d0": (8, 0)}


def test_the_champion_moves_by_at_least_three_tenths_and_a_second_run_goes_on_from_there(
    environment: dict[str, str], empty_house: House
) -> None:
    first = completed(environment)
    verdict = next(iter(empty_house.views().find(VERDICTS).values())).reached()
    assert verdict is not None
    assert verdict.mean_delta is not None
    assert verdict.mean_delta >= 300_000
    champion = empty_house.views().get(CHAMPIONS, CHAMPION)
    assert champion is not None
    assert (champion.by, champion.evaluation) == ("gate", "eval-1")

    second = completed(environment)
    assert "nothing to improve" in str(second["ended"])
    assert second["champion"] == first["champion"]
    assert runs_of(second) > runs_of(first)
    third = completed(environment)
    assert runs_of(third) == runs_of(second)
    assert third["head"] == second["head"]
    assert every_verdict_recomputes(empty_house) >= 1


def test_two_controllers_do_not_work_on_one_site_at_once(environment: dict[str, str], empty_house: House) -> None:
    first = subprocess.Popen(COMMAND, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while empty_house.store.head() < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    try:
        second = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=120, check=False)
    finally:
        first.send_signal(signal.SIGCONT)
    assert second.returncode == 1
    assert "works on marketplace in this project" in second.stderr
    first.communicate(timeout=300)
    assert first.returncode == 0
    views = empty_house.views()
    assert list(views.find(VERDICTS)) == ["eval-1"]
    assert {run.sweep for run in views.find(RUNS).values()} == {
        "marketplace-1",
        "marketplace-2",
        "marketplace-3",
        "eval-1",
    }


def runs_of(summary: dict[str, object]) -> int:
    """The number of runs in a summary."""
    return int(str(summary["runs"]))


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """A site dies with the command that started it."""
    yield
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _sites():
        time.sleep(0.1)
    assert _sites() == []


def _sites() -> list[str]:
    """Command lines of site processes whose parent is gone."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        if "agents.envs.serve" in line and parent == "1":
            found.append(line)
    return found
