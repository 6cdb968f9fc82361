"""Runs on a site that is killed, slowed and made to answer 503 at random: none ends as what it is not.

The long form (300 runs) is one of `make endure`.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.sites.marketplace.app import ALL_TASKS
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.house import House
from api.reporter import Advance, Reporter
from api.sweeps.plan import first_facts, plan
from api.sweeps.play import play_sweep
from api.sweeps.progress import sweep_progress
from benchmarks.shipped import templates
from eventlog.events import RewardGraded, RunFinished, SweepPlanned

TOKEN = "a token that outlives the site"
WEATHER = (("0-0", "0"), ("20-80", "0"), ("0-0", "0.05"), ("5-30", "0.02"))
COURSE = Course(max_parallel=8)
Ends = dict[str, tuple[str, str, int, bool]]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class Counting:
    """A Reporter that counts the runs that ended, and lets others wait for more of them."""

    ended: int = 0
    moved: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Advance]:
        yield self.advance

    def advance(self, *, note: str = "") -> None:
        with self.moved:
            self.ended += 1
            self.moved.notify_all()

    def wait(self, done: threading.Event, until: int) -> None:
        self.moved.wait_for(lambda: done.is_set() or self.ended >= until)

    def say(self, text: str) -> None: ...


def served(port: int, admin_port: int, latency: str, failure_rate: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "agents.envs.serve", "marketplace", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--admin-port", str(admin_port)]
    command += ["--latency-ms", latency, "--failure-rate", failure_rate]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{TOKEN}\n".encode())
    child.stdin.flush()
    assert child.stdout.readline()
    return child


def killed(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


@contextmanager
def troubled_site(counting: Counting, rng: random.Random) -> Iterator[tuple[EnvClient, list[tuple[str, str]]]]:
    """A marketplace on fixed ports: after some runs it is killed, and comes back with other weather."""
    ports = free_port(), free_port()
    done, told = threading.Event(), [WEATHER[0]]
    first = served(*ports, *WEATHER[0])

    def weather(child: subprocess.Popen[bytes]) -> None:
        while True:
            with counting.moved:
                counting.wait(done, counting.ended + rng.randint(10, 30))
            killed(child)
            if done.is_set():
                return
            told.append(rng.choice(WEATHER))
            child = served(*ports, *told[-1])

    troubles = threading.Thread(target=weather, args=(first,))
    troubles.start()
    try:
        with EnvClient(f"http://127.0.0.1:{ports[1]}", TOKEN) as client:
            yield client, told
    finally:
        done.set()
        with counting.moved:
            counting.moved.notify_all()
        troubles.join()


def ends_of(house: House, sweep: str) -> Ends:
    """How each run ended that was graded: status, end fingerprint, score, passed."""
    events = [recorded.event for recorded in house.store.read(types=["RunFinished", "RewardGraded"])]
    finished = {event.run: event for event in events if isinstance(event, RunFinished)}
    return {
        event.run.removeprefix(f"{sweep}__"): (
            finished[event.run].status,
            finished[event.run].fingerprint,
            event.score,
            event.passed,
        )
        for event in events
        if isinstance(event, RewardGraded) and event.run.startswith(f"{sweep}__")
    }


def played(house: House, client: EnvClient, name: str, seeds: int, reporter: Reporter) -> SweepPlanned:
    found = templates({task.task_id: task.instruction for task in ALL_TASKS})
    with_templates = SeedSweep(name, found, range(seeds))
    sweep = plan(house, house.views(), "marketplace", with_templates, rng_seed=7, learns=False)
    play_sweep(house, client, sweep, COURSE, reporter)
    return sweep


@pytest.mark.usefixtures("cold_starts")  # a site that is back at once leaves no run missing
@pytest.mark.timeout(600)
@pytest.mark.costly("a process of a site for each trouble, and each run played on a calm site too")
@pytest.mark.parametrize("runs", [150, pytest.param(300, marks=pytest.mark.endure)])
def test_each_run_of_a_troubled_sweep_is_missing_or_ends_as_it_does_on_a_calm_site(
    empty_house: House, marketplace: EnvClient, runs: int
) -> None:
    house, seeds = empty_house, runs // len(ALL_TASKS)
    first_facts(house)
    played(house, marketplace, "calm", seeds, Counting())
    counting, rng = Counting(), random.Random(7)  # noqa: S311 weather
    with troubled_site(counting, rng) as (client, told):
        sweep = played(house, client, "troubled", seeds, counting)
    (found,) = sweep_progress(house.views(), [sweep])
    assert found.sentence() == f"{runs} received = {found.graded} graded + {found.missing} missing"
    assert found.received == runs == found.graded + found.missing
    assert len(told) > runs // 50
    assert found.missing < runs  # how many, the site decides
    types = Counter(r.event.type for r in house.store.read() if r.stream.startswith("run/troubled__"))
    assert types["RunStarted"] == runs == types["RunFinished"] + types["RunMissing"]
    assert types["RewardGraded"] == types["RunFinished"]
    calm_ends, troubled_ends = ends_of(house, "calm"), ends_of(house, "troubled")
    assert len(calm_ends) == runs
    assert {run: calm_ends[run] for run in troubled_ends} == troubled_ends
    assert len(troubled_ends) == found.graded
