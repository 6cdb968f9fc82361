"""`make bench-log`: appends, rebuilds, frames, lag, reads as of a position and bytes on disk, as ratios in one run."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from benchmarks.report import Target, report
from benchmarks.workload import fill

from . import appending, as_of, columnar, disk, lagging, memory, rebuilding
from .rebuilding import Sizes
from .server import Server, own_server, version

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "log.md"
PROJECT = "large"
ARMS = ("append", "rebuild", "lag", "as-of", "disk")
_LARGE = {"rebuild", "lag", "as-of"}
_LEAST = 10_000


@dataclass(frozen=True, slots=True)
class Effort:
    """Sizes and repeats of the arms. Logs are filled in whole cycles of runs, so they slightly exceed their size."""

    sizes: Sizes
    repeats: int
    rebuild_repeats: int
    append_scale: float
    lag_s: float
    runs_on_disk: int


@dataclass
class Results:
    """Figures collected from the arms."""

    figures: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def take(self, figures: dict[str, float], left_out: dict[str, str] | None = None) -> None:
        """Add the figures of an arm, and its skipped parts with reasons."""
        self.figures |= figures
        self.left_out |= left_out or {}


TARGETS: dict[str, Target] = {
    name: target
    for arm in (appending, rebuilding, columnar, memory, lagging, as_of, disk)
    for name, target in arm.TARGETS.items()
}


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, as a trial.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Measure memory and as-of reads over --large events.")] = False,
    events: Annotated[int, typer.Option(min=_LEAST, help="Minimum number of events in the rebuilt log.")] = 1_000_000,
    large: Annotated[int, typer.Option(min=_LEAST, help="Minimum number of events in the log of --full.")] = 5_000_000,
    only: Annotated[list[str] | None, typer.Option(help=f"Run only this arm: {', '.join(ARMS)}; repeatable.")] = None,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Measure the log on a new embedded server."""
    chosen = set(only or ARMS)
    if unknown := chosen - set(ARMS):
        raise typer.BadParameter(f"unknown arm {', '.join(sorted(unknown))}; expected some of {', '.join(ARMS)}")
    if write and (quick or chosen != set(ARMS)):
        raise typer.BadParameter("--write needs a full run: omit --quick and --only")
    if full and large < events:
        raise typer.BadParameter(f"--large {large} is less than --events {events}: expected at least as many")
    effort = _effort(quick=quick, events=events, large=large if full else events)
    results, began = Results(), time.monotonic()
    with own_server() as server:
        note = _note(server, effort)
        if "append" in chosen:
            with _told("append"):
                results.take(*appending.appends(server, effort.repeats, effort.append_scale))
        if "disk" in chosen:
            with _told("disk"):
                results.take(disk.bytes_on_disk(server, effort.runs_on_disk))
        if chosen & _LARGE:
            _on_a_large_log(server, effort, chosen, results)
    results.take({"minutes in all": (time.monotonic() - began) / 60})
    targets = {name: bound for name, bound in TARGETS.items() if name in results.figures}
    report("log", results.figures, targets, left_out=results.left_out, page=PAGE if write else None, note=note)


def _effort(*, quick: bool, events: int, large: int) -> Effort:
    if quick:
        return Effort(Sizes(20_000, 10_000, 1_000, 40_000), 3, 1, 0.1, 5, 40)
    return Effort(Sizes(events, min(events, 100_000), 2_000, large), 5, 3, 1, 20, 400)


def _told(arm: str) -> Status:
    return Console(stderr=True).status(f"measuring: {arm}")


def _on_a_large_log(server: Server, effort: Effort, chosen: set[str], results: Results) -> None:
    sizes = effort.sizes
    server.project(PROJECT)
    peaks: list[dict[str, float]] = []
    if "rebuild" in chosen and sizes.large == sizes.events:
        peaks.append(_peak(server, sizes.events // 2))
    fill(server.app_url, PROJECT, sizes.events)
    if "rebuild" in chosen:
        with _told("rebuild"):
            found, left_out, rates = rebuilding.rebuilds(server, PROJECT, sizes, effort.rebuild_repeats)
            results.take(found, left_out)
        with _told("frames from the archive"):
            loop = rates[rebuilding.FOLDING]
            results.take(columnar.frames(server, PROJECT, effort.rebuild_repeats, loop))
        peaks.append(_peak(server, sizes.events))
    if "lag" in chosen:
        with _told("lag"):
            results.take(lagging.lags(server, PROJECT, effort.lag_s))
    is_larger = sizes.large > sizes.events and bool(chosen & {"rebuild", "as-of"})
    if is_larger or (not peaks and "as-of" in chosen):
        peaks.append(_peak(server, sizes.large))
    if "rebuild" in chosen:
        for peak in peaks:
            results.take(memory.figures_of(peak))
        results.take({memory.RATIO: peaks[-1]["peak_mb"] / peaks[0]["peak_mb"]})
    if "as-of" in chosen:
        with _told("as of"):
            results.take(*as_of.reads(server, PROJECT, effort.repeats, peaks[-1]["seconds"]))


def _peak(server: Server, events: int) -> dict[str, float]:
    fill(server.app_url, PROJECT, events)
    with _told(f"memory of a rebuild of {events:,} events"):
        return memory.measured(server, PROJECT)


def _note(server: Server, effort: Effort) -> str:
    engine = server.engine("default")
    number = version(engine)
    engine.dispose()
    sizes = effort.sizes
    return (
        f"PostgreSQL {number}, fsync on, {os.cpu_count()} cores; {sizes.events:,} events rebuilt (the loop over"
        f" the first {sizes.loop:,} of them), memory and reads of the past at {sizes.large:,}; medians of"
        f" {effort.repeats} interleaved repeats ({effort.rebuild_repeats} for rebuilds)."
    )


if __name__ == "__main__":
    typer.run(main)
