"""Repeated faults on a crew under load, then a proof of the log once all processes are idle."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import Progress

from eventlog.database import open_engine
from eventlog.postgres import PostgresStore

from .cluster import Cluster
from .crew import Crew, journals
from .intentions import is_pending
from .proof import prove
from .roles import THREADS, Plan, errors

KINDS = {"writer": 7, "projector": 5, "backend": 4, "postmaster": 2, "all of PostgreSQL": 2}
"""Kinds of processes to kill, with their number in 20 kills."""

PAUSED = "subscriber-2"
_UNDER_WAY = 0.5
"""Share of writer kills that wait until an append is in progress; the others come at any time."""
_PATIENCE_S, _LOOK_S = 0.2, 0.001
_SETTLE_S = 180.0
_OWN_FAULT = (
    "DBAPIError",
    "OperationalError",
    "InterfaceError",
    "InternalError",
    "DatabaseError",
    "LogUnavailable",
    "RebuildLost",
)
"""Errors that a lost database causes, including a rebuild's lost session; any other error is a defect."""


def plan_for(url: str, project: str, folder: Path, seed: int, rate: float) -> Plan:
    """Plan of a crew that writes `rate` events per second in total."""
    folder.mkdir()
    threads = 3 + THREADS["writer-1"]
    return Plan(url, project, folder, seed, rate / threads)


@contextmanager
def under_load(plan: Plan) -> Iterator[Crew]:
    """Run a crew; all its members are killed at the end of the block."""
    crew = Crew(plan)
    crew.start()
    try:
        yield crew
    finally:
        crew.end()


def killing(cluster: Cluster, crew: Crew, *, kills: int, seconds: float, pause_s: float, seed: int) -> dict[str, float]:
    """Kill processes at random points, `kills` times in about `seconds`, while pausing a subscriber."""
    draw = random.Random(seed)  # noqa: S311 a seeded choice, not a secret
    done, fallen, began = Counter[str](), 0, time.monotonic()
    pause = _Pause(crew, began + draw.uniform(0, max(0.0, seconds - pause_s)), pause_s)
    with Progress(transient=True) as progress:
        task = progress.add_task("kill -9", total=kills)
        while done.total() < kills:
            left = max(0.0, seconds - (time.monotonic() - began))
            time.sleep(draw.expovariate(1) * left / (kills - done.total()))
            pause.look()
            kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
            if _kill(kind, cluster, crew, draw):
                done[kind] += 1
                progress.advance(task)
            fallen += len(crew.revive())
    pause.finish()
    return {f"kill -9 of {kind}": float(done[kind]) for kind in KINDS} | {
        "kill -9 in all": float(done.total()),
        "a subscriber paused, s": pause.lasted_s,
        "processes that ended by themselves": float(fallen),
    }


def _kill(kind: str, cluster: Cluster, crew: Crew, draw: random.Random) -> bool:
    if kind in {"writer", "projector"}:
        name = draw.choice(crew.named(kind))
        if kind == "writer" and draw.random() < _UNDER_WAY:
            _await_intention(crew.plan.folder, name)
        crew.replace(name)
        return True
    acts: dict[str, Callable[[], bool]] = {
        "backend": lambda: cluster.kill_backend(draw.random()),
        "postmaster": cluster.kill_postmaster,
        "all of PostgreSQL": cluster.kill_all,
    }
    was_there = acts[kind]()
    cluster.up()
    return was_there


def _await_intention(folder: Path, writer: str) -> None:
    """Wait briefly until a writer has recorded an intention that is not yet acknowledged."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and not any(is_pending(path) for path in folder.glob(f"{writer}*.journal")):
        time.sleep(_LOOK_S)


class _Pause:
    """Pauses one subscriber and continues it after a given time."""

    def __init__(self, crew: Crew, begins: float, lasts_s: float) -> None:
        self._crew, self._begins, self._lasts_s = crew, begins, lasts_s
        self._stopped: float | None = None
        self.lasted_s = 0.0

    def look(self) -> None:
        """Pause or continue the subscriber if it is time."""
        now = time.monotonic()
        if self._stopped is None and not self.lasted_s and now >= self._begins:
            self._crew.signal(PAUSED, signal.SIGSTOP)
            self._stopped = now
        elif self._stopped is not None and now >= self._stopped + self._lasts_s:
            self.finish()

    def finish(self) -> None:
        """Wait for the rest of the pause, then continue the subscriber."""
        if self._stopped is None:
            return
        time.sleep(max(0.0, self._stopped + self._lasts_s - time.monotonic()))
        self._crew.signal(PAUSED, signal.SIGCONT)
        self.lasted_s, self._stopped = time.monotonic() - self._stopped, None


def settle(crew: Crew, url: str) -> dict[str, float]:
    """Let all processes finish, then verify the log and return its figures. `url` must bypass the proxy."""
    plan = crew.plan
    plan.stop.touch()
    stuck = crew.ended("writer", _SETTLE_S) + crew.ended("projector", _SETTLE_S)
    engine = open_engine(url, plan.project)
    plan.stop.write_text(str(PostgresStore(engine).head()), encoding="utf-8")
    late = crew.ended("subscriber", _SETTLE_S)
    figures = prove(engine, plan.folder, plan.seed, journals(plan.folder))
    engine.dispose()
    met = errors(plan.folder)
    return figures | {
        "subscribers that did not arrive": float(len(late)),
        "processes stuck": float(len(stuck)),
        "errors met by clients": float(met.total()),
        "errors that are no database's": float(sum(n for kind, n in met.items() if kind not in _OWN_FAULT)),
    }
