"""Rebuilds: every projection from the log, against the ordinary loop and against the other library; and the memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from benchmarks.made import batches
from benchmarks.report import Target, at_least, at_most, medians
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from projections import ALL
from projections.projection import AnyFold, Fold, Row, State, digest_changes
from projections.projector import Projector
from projections.views import PostgresViews
from projections.views import at_least as views_at_least

from . import ordinary
from .filling import fill
from .peer import MISSING, peer, plain
from .server import Server

TARGETS: dict[str, Target] = {
    "rebuild transport, ours / ordinary loop": at_least(4),
    "rebuild of all folds, ours / ordinary loop": at_least(2.5),
    "rebuild folds that differ from the loop's": at_most(0),
    "rebuild frames from the archive / ordinary loop": at_least(30),
    "rebuild of all folds, ours / ProjectionRunner": at_least(100),
    "rebuild peak memory, large / small": at_most(1.25),
}
_FRAMES = "frames from the archive are not there yet"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many events: in the log that is rebuilt, in the large one, and for the peer."""

    small: int
    large: int
    peer: int


def rebuilds(server: Server, project: str, sizes: Sizes, repeats: int) -> tuple[dict[str, float], dict[str, str]]:
    """Rates and ratios over the small log; and what was left out."""
    fill(server, project, sizes.small)
    engine = server.engine(project)
    names = [fold.name for fold in ALL]
    arms: dict[str, Callable[[], int]] = {
        "transport, ordinary loop": lambda: ordinary.transport(server, project),
        "transport, ours": lambda: transport(engine),
        "all folds, ordinary loop": lambda: ordinary.rebuild(server, project),
        "all folds, ours": lambda: whole(engine, names),
    }
    rates = medians(arms, repeats)
    figures = {f"rebuild {name}, events/s": rate for name, rate in rates.items()}
    figures["rebuild transport, ours / ordinary loop"] = rates["transport, ours"] / rates["transport, ordinary loop"]
    figures["rebuild of all folds, ours / ordinary loop"] = rates["all folds, ours"] / rates["all folds, ordinary loop"]
    figures["rebuild folds that differ from the loop's"] = _different(server, project, engine)
    left_out: dict[str, str] = {}
    archived = frames(engine)
    if archived is None:
        left_out["rebuild frames from the archive"] = _FRAMES
    else:
        figures["rebuild frames from the archive, events/s"] = archived
        figures["rebuild frames from the archive / ordinary loop"] = archived / rates["all folds, ordinary loop"]
    runner = _runner(server, sizes.peer)
    if runner is None:
        left_out["rebuild ProjectionRunner"] = MISSING
    else:
        figures["rebuild ProjectionRunner, the same types for each fold, events/s"] = runner
        figures["rebuild of all folds, ours / ProjectionRunner"] = rates["all folds, ours"] / runner
    engine.dispose()
    return figures, left_out


def transport(engine: Engine) -> int:
    """Bring over what all folds read, and fold nothing."""
    reads: dict[str, tuple[str, ...]] = {}
    for fold in ALL:
        for kind, paths in fold.reads.items():
            reads[kind] = tuple(sorted({*reads.get(kind, ()), *paths}))
    nothing = Fold("bench_transport", 1, reads, State(), key=_no_key, fold=_as_it_was)
    Projector(engine, (nothing,)).rebuild([nothing.name])
    return PostgresStore(engine).head()


def _no_key(_row: Row) -> str | None:
    return None


def _as_it_was(state: State, _row: Row) -> State:
    return state


def whole(engine: Engine, names: list[str]) -> int:
    """Rebuild these folds, rows written."""
    Projector(engine).rebuild(names)
    return PostgresStore(engine).head()


def frames(_engine: Engine) -> float | None:
    """Events a second of all frames from archived segments; None until there are any."""
    return None


def _different(server: Server, project: str, engine: Engine) -> float:
    """How many folds the loop and the projector disagree on: a fast rebuild must be the same rebuild."""
    store = PostgresStore(engine)
    views = views_at_least(Projector(engine), engine, store)
    return float(sum(_live(views, fold) != ordinary.digest(server, project, fold) for fold in ALL))


def _live(views: PostgresViews, fold: AnyFold) -> str:
    return digest_changes(views.changes(fold))


def _runner(server: Server, events: int) -> float | None:
    """Events a second when the library runs a projection for each fold of ours, over the types which that reads."""
    with peer(server.peer("peer_projections")) as other:
        if other is None:
            return None
        lines = [line for batch in batches(100, events // 100, prefix="runner") for line in plain(batch)]
        other.insert(lines, 100)
        there = {line[1] for line in lines}
        folds = {fold.name: sorted(there & fold.reads.keys()) for fold in ALL}
        return len(lines) / other.project({name: types for name, types in folds.items() if types})


def peaks(server: Server, project: str, sizes: Sizes) -> dict[str, float]:
    """Peak memory of a process that rebuilds everything, over the small log and over the large one."""
    small = _measured(server, project)
    fill(server, project, sizes.large)
    large = _measured(server, project)
    return {
        f"rebuild peak memory at {sizes.small:,} events, MB": small["peak_mb"],
        f"rebuild peak memory at {sizes.large:,} events, MB": large["peak_mb"],
        f"rebuild of all folds at {sizes.large:,} events, s": large["seconds"],
        "rebuild peak memory, large / small": large["peak_mb"] / small["peak_mb"],
    }


def _measured(server: Server, project: str) -> Mapping[str, float]:
    command = [sys.executable, "-m", "benchmarks.log.rebuilding", project]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, input=server.app_url, capture_output=True, text=True, check=True, cwd=root)
    found: Mapping[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Rebuild everything once in this process; print the seconds and the peak."""
    engine = open_engine(sys.stdin.read(), sys.argv[1])
    began = time.perf_counter()
    whole(engine, [fold.name for fold in ALL])
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "peak_mb": _peak_mb()}))


def _peak_mb() -> float:
    """The most memory this program ever held: on Linux `ru_maxrss` counts what the parent held before the exec too."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return kilobytes / 1024


if __name__ == "__main__":
    main()
