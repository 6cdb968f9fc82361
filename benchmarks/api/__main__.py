"""`make bench-api`: traces in beside MLflow and Phoenix, rows out, and the dashboard's first page, in one run."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.log.server import own_server, version
from benchmarks.report import Target, report

from . import ingesting, pages, rows

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "api.md"
ARMS = ("ingest", "rows", "dashboard")
TARGETS: dict[str, Target] = {**ingesting.TARGETS, **rows.TARGETS, **pages.TARGETS}


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run for a few minutes on small sizes, as a trial.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"Run only this arm: {', '.join(ARMS)}; repeatable.")] = None,
    traces: Annotated[int, typer.Option(min=100, help="Traces that each server is sent in a repeat.")] = 400,
    repeats: Annotated[int, typer.Option(min=1, help="Times that each is measured, in turns.")] = 3,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Measure what others meet on a new embedded server."""
    chosen = set(only or ARMS)
    if unknown := chosen - set(ARMS):
        raise typer.BadParameter(f"unknown arm {', '.join(sorted(unknown))}; expected some of {', '.join(ARMS)}")
    if write and (quick or chosen != set(ARMS)):
        raise typer.BadParameter("--write needs a full run: omit --quick and --only")
    figures: dict[str, float] = {}
    left_out: dict[str, str] = {}
    began = time.monotonic()
    with own_server() as server, tempfile.TemporaryDirectory(prefix="flywheel-bench-") as made:
        folder = Path(made)
        for arm in ARMS:
            if arm not in chosen:
                continue
            Console(stderr=True).print(f"measuring: {arm}")
            if arm == "ingest":
                found, left_out = ingesting.measure_ingest(server, folder, 100 if quick else traces, repeats)
            elif arm == "rows":
                found = rows.measure_rows(server, folder, 20_000 if quick else 200_000, repeats)
            else:
                lengths = (10_000, 100_000 if quick else 1_000_000)
                found = pages.measure_pages(server, folder, lengths, 3 * repeats)
            figures |= found
        engine = server.engine("default")
        note = f"PostgreSQL {version(engine)}, fsync on, {os.cpu_count()} cores; medians of interleaved repeats."
        engine.dispose()
    figures["minutes in all"] = (time.monotonic() - began) / 60
    targets = {name: bound for name, bound in TARGETS.items() if name in figures}
    report("api", figures, targets, left_out=left_out, page=PAGE if write else None, note=note)


if __name__ == "__main__":
    typer.run(main)
