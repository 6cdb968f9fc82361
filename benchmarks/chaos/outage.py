"""Stops PostgreSQL while workers play, and checks that every planned run ends once when it is back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from pydantic import SecretStr

from agents.envs.sites.marketplace.tasks import TASKS
from agents.learning.memory import forget_everything
from agents.rollouts.dispatching.queue import RolloutQueue, tickets
from agents.rollouts.sweep import SeedSweep, plan_sweep
from api.house import House, open_house
from api.settings import Settings
from benchmarks.shipped import templates
from eventlog.events import RunFinished, RunMissing, SweepPlanned
from eventlog.store import Append

from .cluster import Cluster

_PROJECT = "outage"
_SITE = "marketplace"
_SEEDS = 40
_COMMAND = (sys.executable, "-c", "from api.cli.main import main; main()", "worker", "--json", "--until-empty")
_PATIENCE_S = 600.0
_SHORTLY_S = 1.0


def outage(cluster: Cluster, folder: Path, away_s: float) -> dict[str, float]:
    """Kill every process of the server while two workers play, and start it again after so many seconds.

    Shortly after its start a backend is killed, so that it crashes and recovers while the workers connect again.
    """
    url = cluster.project(_PROJECT)
    house = open_house(Settings(database_url=SecretStr(url), project=_PROJECT))
    try:
        sweep = _plan(house)
        told, has_crashed = _play(cluster, folder, url, away_s)
        house.engine.dispose()
        again = {"outage: crashes shortly after it": float(has_crashed)}
        return {"outage: seconds away": away_s, **again, **_count(house, sweep, told)}
    finally:
        house.close()


def _plan(house: House) -> SweepPlanned:
    artifact, memory = forget_everything("base")
    house.blobs.put([memory])
    made = templates({task.task_id: task.instruction for task in TASKS})
    sweep = plan_sweep(SeedSweep("s1", made[:1], range(_SEEDS), 2), _SITE, artifact, rng_seed=7)
    append = Append("sweep/s1", (sweep,), "chaos", expect=0, key="sweep:s1")
    RolloutQueue(house.engine, _SITE).plan(append, tickets(sweep))
    return sweep


def _play(cluster: Cluster, folder: Path, url: str, away_s: float) -> tuple[list[str], bool]:
    """The kinds of events that the workers told, and whether the server crashed once more."""
    workers = []
    for number in range(2):
        home = folder / f"worker{number}"
        home.mkdir(parents=True)
        more = {"FLYWHEEL_DATABASE_URL": url, "FLYWHEEL_PROJECT": _PROJECT, "FLYWHEEL_HOME": str(home)}
        workers.append(subprocess.Popen(_COMMAND, env=os.environ | more, stdout=subprocess.PIPE, text=True))
    first = workers[0].stdout
    if first is None:
        raise RuntimeError("a worker's output is no pipe")
    seen: list[str] = []
    while not seen or (seen[-1] != "played" and len(seen) < _SEEDS):
        seen.append(str(json.loads(first.readline())["event"]))
    cluster.kill_all()
    time.sleep(away_s)
    cluster.up()
    time.sleep(_SHORTLY_S)
    has_crashed = cluster.kill_backend(0.5)
    for worker in workers:
        out, _ = worker.communicate(timeout=_PATIENCE_S)
        seen += [str(json.loads(line)["event"]) for line in out.splitlines()]
    return seen, has_crashed


def _count(house: House, sweep: SweepPlanned, told: list[str]) -> dict[str, float]:
    ends = Counter(each.event.run for each in house.store.read() if isinstance(each.event, RunFinished | RunMissing))
    return {
        "outage: runs planned": float(len(sweep.specs)),
        "outage: workers that waited": float(told.count("unreachable")),
        "outage: runs that did not end once": float(sum(ends[spec.spec_id] != 1 for spec in sweep.specs)),
        "outage: jobs taken from a worker": float(told.count("rescued")),
        "outage: jobs parked": float(told.count("parked")),
    }
