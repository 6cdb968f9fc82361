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
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Engine

from api.house import House
from eventlog.chain import GENESIS, verify_chain
from eventlog.events import RewriteLost, RewriteWon, RunFinished, RunMissing, RunStarted
from eventlog.postgres import PostgresStore
from eventlog.store import START
from projections.champions import CHAMPION, CHAMPIONS
from projections.engine.compare import compare
from projections.rewrites import REWRITES
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.conftest import Database
from tests.killing import end, has_ended, processes_of
from tests.recomputing import every_verdict_recomputes

pytestmark = [pytest.mark.timeout(400), pytest.mark.costly("commands that play a loop up to its first verdict")]
COMMAND = [sys.executable, "-c", "from api.cli.main import main; main()", "run", "--rule", "seeds", "--json"]
COMMAND += ["--cluster", "navigation", "--verdicts", "1"]


STANDS_STILL_S = 150
"""For so long the log of a command may stay as it is: it does while a site is probed, which a busy machine prolongs."""
ENDS_WITHIN_MS = 5_000
HELD_UP_MS = 30_000


@dataclass(frozen=True)
class Commands:
    """The command as processes of one test, on a log of its own."""

    store: PostgresStore
    environment: dict[str, str]
    folder: Path
    begun: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self) -> subprocess.Popen[bytes]:
        """Start the command. What it says goes to files."""
        number = len(self.begun)
        with (self.folder / f"out{number}").open("wb") as out, (self.folder / f"err{number}").open("wb") as err:
            self.begun.append(subprocess.Popen(COMMAND, env=self.environment, stdout=out, stderr=err))
        return self.begun[-1]

    def said(self, child: subprocess.Popen[bytes], where: str = "err") -> str:
        """What a command wrote to standard error, or `out`."""
        return (self.folder / f"{where}{self.begun.index(child)}").read_text(errors="replace")

    def wait(self, child: subprocess.Popen[bytes], position: int) -> None:
        """Until the log has grown so far. Fails where the command ends before, or the log stands still."""
        head, since = self.store.head(), time.monotonic()
        while head < position:
            assert child.poll() is None, f"it ended at {head}, before {position}: {self.said(child)[-2000:]}"
            time.sleep(0.01)
            before, head = head, self.store.head()
            since = since if head == before else time.monotonic()
            assert time.monotonic() < since + STANDS_STILL_S, f"the log stays at {head}: {self.said(child)[-2000:]}"

    def completed(self, child: subprocess.Popen[bytes] | None = None) -> dict[str, object]:
        """The summary of a command that ended well: of this one, or of a new one."""
        awaited = child or self.begin()
        code = awaited.wait(timeout=200)
        assert code == 0, self.said(awaited)
        summary: dict[str, object] = json.loads(self.said(awaited, "out"))
        return summary


@pytest.fixture
def commands(empty_database: Database, empty_engine: Engine, tmp_path: Path) -> Iterator[Commands]:
    """Commands of this test. What is left of them at its end is killed; of one that has ended, nothing may be left."""
    urls = {"FLYWHEEL_DATABASE_URL": empty_database.app_url, "FLYWHEEL_OWNER_URL": empty_database.owner_url}
    home = {"FLYWHEEL_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(__file__).parents[2])}
    made = Commands(PostgresStore(empty_engine), {**os.environ, **urls, **home}, tmp_path)
    yield made
    for child in made.begun:
        child.kill()
        child.wait()
    started = processes_of(tmp_path / "home")
    left = {process: line for process, line in started.items() if not has_ended(process, ENDS_WITHIN_MS)}
    end(left)
    assert left == {}, "a site outlives the command that started it"


def test_a_run_killed_again_and_again_counts_nothing_twice_and_a_second_one_goes_on_from_there(
    commands: Commands, empty_house: House
) -> None:
    store = commands.store
    for position in (2, 200, 700, 1400):
        child = commands.begin()
        commands.wait(child, position)
        child.kill()
        child.wait()
    summary = commands.completed()
    assert summary["decision"] == "promote"

    events = [recorded.event for recorded in store.read()]
    started = collections.Counter(event.run for event in events if isinstance(event, RunStarted))
    finished = collections.Counter(event.run for event in events if isinstance(event, RunFinished))
    credited = collections.Counter(event.run for event in events if isinstance(event, RewriteWon | RewriteLost))
    treated = {event.run for event in events if isinstance(event, RunStarted) and event.spec.candidate is not None}
    interrupted = collections.Counter(
        event.run for event in events if isinstance(event, RunMissing) and event.reason == "interrupted"
    )
    assert started == finished + interrupted
    assert set(started.values()) == {1}
    assert credited == collections.Counter(treated)
    assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == store.head()
    assert all(found.is_identical for found in compare(empty_house.views()))
    # the same as without any kill: promoted by the oracle's outcomes in the order of the sweep
    promoted = {
        key: (s.wins, s.losses) for key, s in empty_house.views().find(REWRITES).items() if s.status == "promoted"
    }
    assert promoted == {"rw-80280fbd00d0": (8, 0)}
    verdict = next(iter(empty_house.views().find(VERDICTS).values())).verdict_reached()
    assert verdict is not None
    assert verdict.mean_delta is not None
    assert verdict.mean_delta >= 300_000
    champion = empty_house.views().get(CHAMPIONS, CHAMPION)
    assert champion is not None
    assert (champion.by, champion.evaluation) == ("gate", "eval-1")

    second = commands.completed()
    assert "nothing to improve" in str(second["ended"])
    assert second["champion"] == summary["champion"]
    assert runs_of(second) > runs_of(summary)
    third = commands.completed()
    assert runs_of(third) == runs_of(second)
    assert third["head"] == second["head"]
    assert every_verdict_recomputes(empty_house) >= 1


def test_two_controllers_do_not_work_on_one_site_at_once(commands: Commands, empty_house: House) -> None:
    first = commands.begin()
    commands.wait(first, 5)
    first.send_signal(signal.SIGSTOP)
    try:
        second = commands.begin()
        while not has_ended(second.pid, HELD_UP_MS):  # the first was stopped while it held what an append waits for
            first.send_signal(signal.SIGCONT)
            time.sleep(0.05)
            first.send_signal(signal.SIGSTOP)
        assert second.wait(timeout=10) == 1
    finally:
        first.send_signal(signal.SIGCONT)
    assert "working on marketplace in this project" in commands.said(second)
    commands.wait(first, 200)
    assert {run.sweep for run in empty_house.views().find(RUNS).values()} == {"marketplace-1"}


def runs_of(summary: dict[str, object]) -> int:
    """The number of runs in a summary."""
    return int(str(summary["runs"]))
