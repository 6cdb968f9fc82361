"""`make bench-data`: builds a GRPO dataset from a log, against a plain loop, and measures memory at two log sizes."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.log.server import own_server, version
from benchmarks.report import at_least, at_most, report
from eventlog.store import Position

from .arms import Timed, differ, fold, ours, plain_loop
from .workload import SIBLINGS, fill

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "datasets.md"
PROJECT = "datasets"
TIMES = 4
"""Ratio of the lengths of the two logs."""

CPU = "own CPU of a row, plain loop / ours"
SPEED, MEMORY = "rows/s, ours / plain loop", "peak memory, longer log / shorter log"


def main(
    *,
    rows: Annotated[
        int, typer.Option(min=800, help="Rows of the shorter log; the longer one has four times as many.")
    ] = 100_000,
    loop_rows: Annotated[int, typer.Option(min=80, help="Number of rows that the plain loop builds.")] = 2_000,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Build rows from a log on a new embedded PostgreSQL, each arm in a separate process."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    size, timed_over = (4_000, 400) if quick else (rows, loop_rows)
    with own_server() as server, tempfile.TemporaryDirectory(prefix="flywheel-bench-") as folder:
        server.project(PROJECT)
        url, mine, theirs = server.app_url, Path(folder) / "ours.parquet", Path(folder) / "loop.parquet"
        engine = server.engine(PROJECT)
        note = f"PostgreSQL {version(engine)}, fsync on, {os.cpu_count()} cores; {SIBLINGS} runs to a group"
        engine.dispose()
        short = _filled(url, size)
        first = _apart(ours, url, PROJECT, short, str(mine))
        loop = _apart(plain_loop, url, PROJECT, short, max(1, timed_over // SIBLINGS), str(theirs))
        wrong = differ(mine, theirs)
        if wrong is not None:
            raise SystemExit(f"the rows of the two arms differ in the column {wrong}, so no figure is valid")
        long = _filled(url, TIMES * size)
        second = _apart(ours, url, PROJECT, long, str(mine))
    figures = _figures(first, loop, second)
    targets = {SPEED: at_least(10.0), MEMORY: at_most(1.2)}
    note = f"{note}; the plain loop was timed over the first {loop.rows:,} rows, and its rows are the same."
    report("datasets", figures, targets, page=PAGE if write else None, note=note)


def _figures(first: Timed, loop: Timed, second: Timed) -> dict[str, float]:
    return {
        "rows of the shorter log": first.rows,
        "ours, seconds": first.seconds,
        "ours, rows/s": first.rows / first.seconds,
        "plain loop, rows/s": loop.rows / loop.seconds,
        "ours, own CPU of a row, ms": 1000 * first.cpu_seconds / first.rows,
        "plain loop, own CPU of a row, ms": 1000 * loop.cpu_seconds / loop.rows,
        CPU: (loop.cpu_seconds / loop.rows) / (first.cpu_seconds / first.rows),
        SPEED: first.rows / first.seconds / (loop.rows / loop.seconds),
        "rows of the longer log": second.rows,
        "longer log: ours, rows/s": second.rows / second.seconds,
        "peak memory at the shorter log, MiB": first.peak_mib,
        "peak memory at the longer log, MiB": second.peak_mib,
        MEMORY: second.peak_mib / first.peak_mib,
    }


def _filled(url: str, rows: int) -> Position:
    fill(url, PROJECT, rows)
    with Console(stderr=True).status(f"folding a log of {rows:,} runs"):
        return fold(url, PROJECT)


def _apart(arm: Callable[..., Timed], *arguments: object) -> Timed:
    """Run an arm in a new process, so that its peak memory is measured alone."""
    with (
        multiprocessing.get_context("spawn").Pool(1) as pool,
        Console(stderr=True).status("making rows"),
    ):
        return pool.apply(arm, arguments)


if __name__ == "__main__":
    typer.run(main)
