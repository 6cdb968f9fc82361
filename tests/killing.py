"""`flywheel` as processes of a project, which are killed once the log holds a certain fact."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from agents.rewards import DEFAULT_PRICES
from api.house import House
from eventlog.chain import GENESIS, verify_chain
from eventlog.database import open_engine
from eventlog.events import CheckpointSaved, TrainingStarted
from eventlog.store import START, Append, EventStore, Recorded
from projections.engine.compare import compare
from tests.conftest import Database, house_on

FLYWHEEL = (sys.executable, "-c", "from api.cli.main import main; main()")
ROOT = Path(__file__).parents[1]
PATIENCE_MS = 60_000
Child = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Kill:
    """Whom to kill once the log holds the `number`-th event of a type in the streams that begin so."""

    fact: str
    number: int = 1
    streams: str = ""
    whom: Literal["both", "controller", "trainer"] = "both"

    def counts(self, recorded: Recorded) -> bool:
        """Whether an event is one of those that are counted."""
        return recorded.event.type == self.fact and recorded.stream.startswith(self.streams)


@dataclass(frozen=True, slots=True)
class Project:
    """A log of its own, and a folder for everything that a command leaves behind."""

    house: House
    database: Database
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a command is told."""
        told = {
            "FLYWHEEL_DATABASE_URL": self.database.app_url,
            "FLYWHEEL_OWNER_URL": self.database.owner_url,
            "FLYWHEEL_KEYS": str(self.database.keys),
            "FLYWHEEL_HOME": str(self.folder / "home"),
            "FLYWHEEL_POLICY_WORDING": "brief",
            "TMPDIR": str(self.folder / "temporary"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "compiled"),
            "PYTHONPATH": str(ROOT),
        }
        return {**os.environ, **told}

    def begun(self, words: Sequence[str]) -> Child:
        """A command in a process group of its own."""
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [*FLYWHEEL, *words], env=self.environment, stdout=said, stderr=said, start_new_session=True
            )

    def completed(self, child: Child) -> None:
        """Wait until a command has ended well."""
        code = child.wait()
        assert code == 0, self.said()

    def said(self) -> str:
        """The last words of all commands."""
        return (self.folder / "said").read_text(errors="replace")[-4000:]

    def processes(self) -> dict[int, str]:
        """The processes that are left of any command here, with their command lines."""
        return processes_of(self.folder / "home")

    def trainers(self) -> list[int]:
        """The training processes."""
        return [pid for pid, line in self.processes().items() if " -m trainer " in line]

    def events(self, *types: type) -> list[Any]:
        """The events of its log, in order: of some types, or all of them."""
        every = [recorded.event for recorded in self.house.store.read()]
        return [event for event in every if isinstance(event, types or object)]

    def driven(self, words: Sequence[str], kills: Sequence[Kill]) -> Counter[str]:
        """Run a command, kill it at each of these events, start it again after each kill, and wait for its end.

        Returns how many kills interrupted a training, keyed by algorithm. A kill that follows an event may come so late
        that the next training has begun.
        """
        interrupted: set[tuple[str, int]] = set()
        child = self.begun(words)
        for kill in kills:
            self.wait(kill, child)
            is_gone = self.strike(kill, child)
            interrupted.update(self.open_trainings())
            if is_gone:
                child = self.begun(words)
        self.completed(child)
        return Counter(algorithm for algorithm, _ in interrupted)

    def open_trainings(self) -> set[tuple[str, int]]:
        """Algorithm and attempt of the training that was started last, if nothing was saved from it."""
        found: set[tuple[str, int]] = set()
        for event in self.events(TrainingStarted, CheckpointSaved):
            found = {(event.config.algorithm, event.attempt)} if isinstance(event, TrainingStarted) else set()
        return found

    def wait(self, kill: Kill, child: Child) -> None:
        """Until the log holds the fact of a kill."""
        left = kill.number
        for batch in self.house.store.subscribe(after=START, until=lambda _: child.poll() is not None):
            left -= sum(map(kill.counts, batch))
            if left <= 0:
                return
        pytest.fail(f"it ended before {kill}: {self.said()}")

    def strike(self, kill: Kill, child: Child) -> bool:
        """Kill whom it says; whether the command is gone. A trainer that is left alone ends by itself."""
        trainers = self.trainers()
        if kill.whom == "trainer":
            (trainer,) = trainers
            os.kill(trainer, signal.SIGKILL)
            return False
        if kill.whom == "controller":
            (trainer,) = trainers
            child.kill()
            assert has_ended(trainer), "the training process outlives its controller"
        else:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return True


def make_time_free(store: EventStore) -> None:
    """Set the first prices, so that a second costs nothing and two histories can be compared to the last digit.

    A run's reward holds what its seconds cost, and rows hold the reward. At the default prices a run of .27 s and one
    of .26 s may give rows, and so a dataset and all that is trained on it, of two digests.
    """
    prices = DEFAULT_PRICES.model_copy(update={"per_second": 0})
    store.append([Append("prices", (prices,), "test", expect=0, key="prices:1")])


def nothing_is_left(at: Project, *bases: str) -> None:
    """No process, and no folder but those of checkpoints and of these bases."""
    assert [line for process, line in at.processes().items() if not has_ended(process)] == []
    assert list((at.folder / "temporary").iterdir()) == []
    models = {each.name for each in (at.folder / "home" / "models").iterdir() if each.is_dir()}
    assert models == {*bases, *(event.checkpoint for event in at.events(CheckpointSaved))}


def the_log_is_whole(at: Project) -> None:
    """Its chain holds, and what is folded is what folding it all again gives."""
    store = at.house.store
    assert len(list(verify_chain(store.read_stored(), after=START, previous=GENESIS))) == store.head()
    assert all(found.is_identical for found in compare(at.house.views()))


@contextmanager
def project_on(database: Database, folder: Path) -> Iterator[Project]:
    """A project whose commands leave everything in this folder. What is left of them is killed at the end."""
    engine = open_engine(database.app_url)
    for each in ("home", "temporary"):
        (folder / each).mkdir(parents=True)
    made = Project(house_on(engine, database), database, folder)
    try:
        yield made
    finally:
        end(made.processes())
        engine.dispose()


def processes_of(home: Path) -> dict[int, str]:
    """The processes that were started with this FLYWHEEL_HOME, and what they started, with their command lines."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            told, line = (each / "environ").read_bytes(), (each / "cmdline").read_bytes()
        except OSError:
            continue
        if f"FLYWHEEL_HOME={home}".encode() in told.split(b"\0"):
            found[int(each.name)] = line.replace(b"\0", b" ").decode()
    return found


def end(processes: Iterable[int]) -> None:
    """Kill processes, of which some may have ended meanwhile."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def has_ended(process: int, within_ms: int = PATIENCE_MS) -> bool:
    """Whether a process is gone, after some patience."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(within_ms))
    finally:
        os.close(descriptor)
