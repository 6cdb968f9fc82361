"""`make bench-fast`: counts lost outcomes, and promotion rates of planted candidates with and without an effect."""

from __future__ import annotations

import os
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from benchmarks.log.server import Server, own_server, version
from benchmarks.report import Target, at_least, at_most, report
from eventlog.events import PairedRule
from gate.intervals import wilson

from .coin import Kind
from .planted import Cell, Ended, ended
from .rule import simulated
from .writers import lost

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "fast.md"
BASES = (100_000, 300_000, 500_000, 700_000)
GAIN = 300_000
HINT_BASE = 500_000
"""Base rate of planted hints; one suffices, because hints are decided like rewrites and only matched differently."""
MOST_NULL, LEAST_TRUE, LEAST_TRUE_AT_LOW = 0.015, 0.9, 0.85
MICRO = 1_000_000


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
    candidates: Annotated[int, typer.Option(min=1, help="Planted candidates per base rate and kind.")] = 400,
    processes: Annotated[int, typer.Option(min=1, help="Cells of candidates that run in parallel.")] = 2,
) -> None:
    """Plant candidates in the real pipeline on a new embedded PostgreSQL, and append outcomes from many processes."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    amount, outcomes, repetitions = (10, 50, 2_000) if quick else (candidates, 500, 20_000)
    figures: dict[str, float] = {}
    with own_server() as server:
        engine = server.engine("default")
        note = f"PostgreSQL {version(engine)}, fsync on, {os.cpu_count()} cores; {amount:,} candidates a row"
        engine.dispose()
        for writers in (4, 16):
            name = f"{writers} writers, outcomes lost of {writers * outcomes:,}"
            with measuring(name):
                figures[name] = lost(server, writers, outcomes)
        began = time.perf_counter()
        with measuring("planted candidates"):
            figures |= planted(server, amount, processes)
        figures["planted candidates, minutes"] = (time.perf_counter() - began) / 60
    figures |= of_the_rule(repetitions)
    targets = targets_of(figures)
    report(
        "fast", figures, targets, page=PAGE if write else None, note=f"{note}; {repetitions:,} simulated repetitions."
    )


def measuring(what: str) -> Status:
    """A status line that names the current measurement."""
    return Console(stderr=True).status(f"measuring: {what}")


def planted(server: Server, candidates: int, processes: int) -> dict[str, float]:
    """Share of planted candidates that were promoted, with 95 % intervals."""
    kinds: list[tuple[Kind, int]] = [*(("rewrite", base) for base in BASES), ("hint", HINT_BASE)]
    cells = [
        (server, Cell(base, base + gain, candidates, seed, kind))
        for seed, (gain, kind, base) in enumerate((gain, kind, base) for kind, base in kinds for gain in (0, GAIN))
    ]
    with get_context("spawn").Pool(processes) as pool:
        found = pool.starmap(ended, cells, chunksize=1)
    figures: dict[str, float] = {}
    for each in found:
        figures |= _rates(each)
    return figures | {"planted candidates, runs": sum(each.runs for each in found)}


def _rates(found: Ended) -> dict[str, float]:
    cell = found.cell
    interval, name = wilson(found.promoted, cell.candidates), _name(cell.base, cell.cured, cell.kind)
    return {
        f"{name}, promoted": found.promoted / cell.candidates,
        f"{name}, interval from": interval.low / MICRO,
        f"{name}, interval to": interval.high / MICRO,
        f"{name}, treated runs": found.treated / cell.candidates,
    }


def _name(base: int, cured: int, kind: Kind = "rewrite") -> str:
    what = "does nothing" if base == cured else f"+{(cured - base) / MICRO:g}"
    return f"{'hint, ' if kind == 'hint' else ''}{what} at {base / MICRO:g}"


def of_the_rule(repetitions: int) -> dict[str, float]:
    """Figures of the simulated rule without the pipeline."""
    figures: dict[str, float] = {}
    for base in (0, *BASES):
        for gain in (0, GAIN):
            name = _name(base, base + gain)
            alone = simulated(PairedRule.current(), base / MICRO, (base + gain) / MICRO, repetitions, base + gain)
            figures[f"the rule alone, {name}, adopted"] = alone.adopted / repetitions
    return figures


def targets_of(figures: dict[str, float]) -> dict[str, Target]:
    """Targets. A rate misses its bound only if its whole interval does, so targets apply to the nearer end of it."""
    bounds: dict[str, Target] = {name: at_most(0) for name in figures if "outcomes lost" in name}
    for base in BASES:
        bounds[f"{_name(base, base)}, interval from"] = at_most(MOST_NULL)
        least = LEAST_TRUE_AT_LOW if base == BASES[0] else LEAST_TRUE
        bounds[f"{_name(base, base + GAIN)}, interval to"] = at_least(least)
    bounds[f"{_name(HINT_BASE, HINT_BASE, 'hint')}, interval from"] = at_most(MOST_NULL)
    bounds[f"{_name(HINT_BASE, HINT_BASE + GAIN, 'hint')}, interval to"] = at_least(LEAST_TRUE)
    return {name: bound for name, bound in bounds.items() if name in figures}


if __name__ == "__main__":
    typer.run(main)
