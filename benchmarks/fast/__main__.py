"""`make bench-fast`: no outcome lost, and how often the fast loop promotes what does nothing and what helps."""

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
"""Hints are planted at one base rate: they are decided as rewrites are, but come to their step in another way."""
MOST_NULL, LEAST_TRUE, LEAST_TRUE_AT_LOW = 0.015, 0.9, 0.85
MICRO = 1_000_000


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="About a minute, to try it out.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Write the table into {PAGE.name} too.")] = False,
    candidates: Annotated[int, typer.Option(min=1, help="Planted candidates for each base rate and kind.")] = 400,
    processes: Annotated[int, typer.Option(min=1, help="Cells of candidates side by side.")] = 2,
) -> None:
    """Plant candidates in the real pipeline over a PostgreSQL of its own, and let many processes write outcomes."""
    if write and quick:
        raise typer.BadParameter("--write is for a whole run: leave out --quick")
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
    """A line that says what is going on."""
    return Console(stderr=True).status(f"measuring: {what}")


def planted(server: Server, candidates: int, processes: int) -> dict[str, float]:
    """Shares of planted candidates that were promoted, with 95 % intervals."""
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
    """The rule alone, simulated."""
    figures: dict[str, float] = {}
    for base in (0, *BASES):
        for gain in (0, GAIN):
            name = _name(base, base + gain)
            alone = simulated(PairedRule(), base / MICRO, (base + gain) / MICRO, repetitions, base + gain)
            figures[f"the rule alone, {name}, adopted"] = alone.adopted / repetitions
    return figures


def targets_of(figures: dict[str, float]) -> dict[str, Target]:
    """A rate is a miss only where its whole interval lies beyond the bound, so the near end of it is what is held."""
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
