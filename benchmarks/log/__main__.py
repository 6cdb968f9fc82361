"""`make bench-log`: appends, rebuilds, lag, reads of the past and bytes on disk, as ratios taken in one run."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import Target, report

from . import appending, as_of, lagging, rebuilding
from .disk import bytes_on_disk
from .filling import fill
from .rebuilding import Sizes
from .server import Server, own_server, version

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "log.md"
PROJECT = "large"
ARMS = ("append", "rebuild", "lag", "as-of", "disk")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of everything."""

    sizes: Sizes
    repeats: int
    rebuild_repeats: int
    append_scale: float
    lag_s: float


QUICK = Effort(Sizes(20_000, 40_000, 1_000), 3, 1, 0.1, 5)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="About a minute, to try it out.")] = False,  # noqa: FBT002 Typer makes an option of it
    events: Annotated[int, typer.Option(min=2000, help="In the log that is rebuilt; a multiple of 2000.")] = 1_000_000,
    large: Annotated[int, typer.Option(min=2000, help="In the large log; a multiple of 2000.")] = 5_000_000,
    only: Annotated[list[str] | None, typer.Option(help=f"Only this: {', '.join(ARMS)}; may be repeated.")] = None,
    write: Annotated[bool, typer.Option("--write", help=f"Write the table into {PAGE.name} too.")] = False,  # noqa: FBT002 Typer makes an option of it
) -> None:
    """Measure the log on a server of its own."""
    chosen = set(only or ARMS)
    if unknown := chosen - set(ARMS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is no arm; expected some of {', '.join(ARMS)}")
    if events % 2000 or large % 2000 or large < events:
        raise typer.BadParameter("--events and --large are multiples of 2000, and the large log is not the smaller one")
    if write and (quick or chosen != set(ARMS)):
        raise typer.BadParameter("--write is for a whole run: leave out --quick and --only")
    effort = QUICK if quick else Effort(Sizes(events, large, 5_000), 5, 3, 1, 20)
    figures: dict[str, float] = {}
    targets: dict[str, Target] = {}
    left_out: dict[str, str] = {}
    began = time.monotonic()
    with own_server() as server:
        note = _note(server, effort)
        if "append" in chosen:
            found, without = appending.appends(server, effort.repeats, effort.append_scale)
            figures, targets, left_out = figures | found, targets | appending.TARGETS, left_out | without
        if chosen & {"rebuild", "lag", "as-of"}:
            found, bounds, without = _on_a_large_log(server, effort, chosen)
            figures, targets, left_out = figures | found, targets | bounds, left_out | without
    if "disk" in chosen:
        found, bounds, without = bytes_on_disk()
        figures, targets, left_out = figures | found, targets | bounds, left_out | without
    figures["minutes in all"] = (time.monotonic() - began) / 60
    measured = {name: bound for name, bound in targets.items() if name in figures}
    report("log", figures, measured, left_out=left_out, page=PAGE if write else None, note=note)


def _on_a_large_log(
    server: Server, effort: Effort, chosen: set[str]
) -> tuple[dict[str, float], dict[str, Target], dict[str, str]]:
    figures: dict[str, float] = {}
    left_out: dict[str, str] = {}
    server.project(PROJECT)
    if "rebuild" in chosen:
        found, without = rebuilding.rebuilds(server, PROJECT, effort.sizes, effort.rebuild_repeats)
        figures, left_out = figures | found, left_out | without
        figures |= rebuilding.peaks(server, PROJECT, effort.sizes)
    if "as-of" in chosen:
        fill(server, PROJECT, effort.sizes.large)
        found, without = as_of.reads(server, PROJECT, effort.repeats)
        figures, left_out = figures | found, left_out | without
    if "lag" in chosen:
        figures |= lagging.lags(server, PROJECT, effort.lag_s)
    return figures, rebuilding.TARGETS | as_of.TARGETS | lagging.TARGETS, left_out


def _note(server: Server, effort: Effort) -> str:
    engine = server.engine("default")
    number = version(engine)
    engine.dispose()
    return (
        f"PostgreSQL {number}, fsync on, {os.cpu_count()} cores; {effort.sizes.small:,} events rebuilt,"
        f" {effort.sizes.large:,} in the large log; medians of {effort.repeats} interleaved repeats"
        f" ({effort.rebuild_repeats} for rebuilds)."
    )


if __name__ == "__main__":
    typer.run(main)
