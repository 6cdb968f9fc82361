"""`make chaos`: kill -9, cut connections, lost locks, an outage, a full disk, a clock; then counts broken guarantees.

The seed determines the choices but not their timing, so a repeated seed does not repeat the exact moments.
"""

from __future__ import annotations

import secrets
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import Target, at_least, at_most, report

from . import proof
from .clock import OFFSETS, clock_jumps
from .cluster import Cluster
from .dropped import cuts, proxied
from .full_disk import full_disk
from .groups import groups
from .locks import lost_locks
from .outage import outage
from .skipped import Skipped
from .storm import killing, plan_for, settle, under_load
from .tampering import tampering

_CUT = "dropped connections: "
_BROKE_OFF = "faults that broke off"
_MEAN_LIFE_S = 1.5

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "chaos.md"


@dataclass(frozen=True, slots=True)
class Load:
    """Size of the faults and of the load."""

    kills: int
    seconds: float
    cut_s: float
    pause_s: float
    rate: float
    seed: int


Fault = Callable[[], dict[str, float]]


def main(
    kills: Annotated[int, typer.Option(min=1, help="How many processes to kill.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="Approximate time for all kills, in seconds.")] = 300,
    cut_seconds: Annotated[float, typer.Option(min=1, help="Time in which connections are cut, in seconds.")] = 45,
    pause: Annotated[
        float, typer.Option(min=0, help="Time for which one subscriber is stopped, and without a database, in seconds.")
    ] = 60,
    rate: Annotated[float, typer.Option(min=1, help="Target rate of all writers, in events per second.")] = 500,
    seed: Annotated[int | None, typer.Option(help="Seed of the random choices. Default: a random one.")] = None,
    keep: Annotated[Path | None, typer.Option(help="New folder to keep journals, notes and databases in.")] = None,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,  # noqa: FBT002 Typer makes an option of it
) -> None:
    """Inject faults and check the guarantees of the log."""
    chosen = secrets.randbelow(2**32) if seed is None else seed
    print(f"seed {chosen}", flush=True)
    load = Load(kills, seconds, cut_seconds, min(pause, seconds), rate, chosen)
    with _folder(keep) as folder:
        figures, left_out = _all(folder, load)
    measured = {name: bound for name, bound in targets(kills).items() if name in figures}
    report("chaos", figures, measured, left_out=left_out, page=PAGE if write else None)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        if keep.exists():
            raise typer.BadParameter(f"{keep} exists already; expected a new folder")
        keep.mkdir(parents=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="flywheel-chaos-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def _all(folder: Path, load: Load) -> tuple[dict[str, float], dict[str, str]]:
    """Run every fault in turn; return the figures, and the skipped faults with their reasons."""
    figures: dict[str, float] = {"seed": load.seed, _BROKE_OFF: 0}
    left_out: dict[str, str] = {}
    cluster = Cluster(folder / "home")
    began = time.monotonic()
    faults: dict[str, Fault] = {
        "kill -9": lambda: storm(cluster, folder / "storm", load),
        "dropped connections": lambda: dropped(cluster, folder / "dropped", load),
        "groups": lambda: groups(cluster, load.cut_s / 2, load.seed),
        "lost locks": lambda: lost_locks(cluster),
        "tampering": lambda: tampering(cluster),
        "outage": lambda: outage(cluster, folder / "outage", load.pause_s),
        "full disk": lambda: full_disk(folder / "disk"),
        "clock jumping back": lambda: clock_jumps(folder / "clock"),
    }
    try:
        for name, fault in faults.items():
            try:
                figures |= fault()
            except Skipped as reason:
                left_out[name] = str(reason)
            except Exception:  # noqa: BLE001 earlier figures are still reported
                traceback.print_exc()
                figures[_BROKE_OFF] += 1
    finally:
        cluster.down()
    figures["seconds in all"] = time.monotonic() - began
    return figures, left_out


def storm(cluster: Cluster, folder: Path, load: Load) -> dict[str, float]:
    """Kill eight processes under load at random points."""
    url = cluster.project("storm")
    with under_load(plan_for(url, "storm", folder, load.seed, load.rate)) as crew:
        figures = killing(cluster, crew, kills=load.kills, seconds=load.seconds, pause_s=load.pause_s, seed=load.seed)
        return figures | settle(crew, url)


def dropped(cluster: Cluster, folder: Path, load: Load) -> dict[str, float]:
    """Reset the connections of eight processes under load at random points."""
    url = cluster.project("dropped")
    with (
        proxied(url, mean_life_s=_MEAN_LIFE_S, seed=load.seed) as (through, count),
        under_load(plan_for(through, "dropped", folder, load.seed, load.rate)) as crew,
    ):
        time.sleep(load.cut_s)
        figures = settle(crew, url)
        return {_CUT + "cut": float(cuts(count))} | {_CUT + name: value for name, value in figures.items()}


def targets(kills: int) -> dict[str, float | Target]:
    """Targets of all guarantees, for each fault."""
    ends = {"processes stuck": at_most(0), "errors that are no database's": at_most(0)}
    return {
        _BROKE_OFF: at_most(0),
        "kill -9 in all": at_least(kills),
        "processes that ended by themselves": at_most(0),
        **proof.targets(),
        **ends,
        _CUT + "cut": at_least(1),
        **proof.targets(_CUT),
        **{_CUT + name: bound for name, bound in ends.items()},
        "groups: written": at_least(1),
        "groups: rejected": at_least(1),
        "groups: written by half": at_most(0),
        "groups: lost": at_most(0),
        "groups: written though rejected": at_most(0),
        "lock: appends refused": at_least(1),
        "lock: events after another took it": at_most(0),
        "tampering: changed keys not found": at_most(0),
        "tampering: bookmarks ahead that were found": at_least(1),
        "tampering: alarms without a cause": at_most(0),
        "outage: crashes shortly after it": at_least(1),
        "outage: workers that waited": at_least(1),
        "outage: runs that did not end once": at_most(0),
        "outage: jobs taken from a worker": at_most(0),
        "outage: jobs parked": at_most(0),
        "full disk: appends refused": at_least(1),
        "full disk: appends acknowledged after it": at_least(1),
        "full disk: events lost": at_most(0),
        "full disk: events doubled": at_most(0),
        "full disk: events never acknowledged": at_most(1),
        "clock: jumps back": at_least(sum(shift.startswith("-") for shift in OFFSETS) - 1),
        "clock: events whose time goes back": at_most(0),
    }


if __name__ == "__main__":
    typer.run(main)
