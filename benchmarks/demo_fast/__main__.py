"""`make demo-fast`: effect of each kind of memory on both sites, as a table, a picture and a JSON line."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..log.server import Server, own_server
from ..report import at_most, held_against, report, section
from .picture import draw
from .playing import Measured, measured_alone
from .rows import QUICK, ROWS, Sizes
from .table import HEADINGS, cells_of, figures_of, idle_rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "demo-fast.md"
PICTURE = ROOT / "docs" / "images" / "demo-fast.png"
SITES = ("marketplace", "helpdesk")
MOST_MINUTES = 10


def main(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run small, as a trial; its figures are not meaningful.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write {PAGE.name} and its picture.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Number of rows that learn in parallel.")] = 2,
) -> None:
    """Let every row learn on both sites, then play it on new instances, on a new embedded PostgreSQL."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    sizes = QUICK if quick else Sizes()
    began = time.perf_counter()
    with own_server() as server:
        found = _all(server, sizes, processes)
    figures, targets, spans = figures_of(found)
    figures["minutes"] = (time.perf_counter() - began) / 60
    targets["minutes"] = at_most(MOST_MINUTES)
    rows = [cell.cells() for cell in cells_of(found)]
    _print(rows)
    if write:
        draw(found, PICTURE)
        section(PAGE, page(found, sizes, held_against(figures, targets, spans)))
    report("demo-fast", figures, targets, intervals=spans)


def _all(server: Server, sizes: Sizes, processes: int) -> list[Measured]:
    """Measure every row on every site, longest first."""
    works = [(server, site, row, sizes) for row in reversed(ROWS) for site in SITES]
    found: list[Measured] = []
    with ExitStack() as stack:
        pool = stack.enter_context(get_context("spawn").Pool(processes))
        status = stack.enter_context(Console(stderr=True).status("learning and playing"))
        for number, each in enumerate(pool.imap_unordered(measured_alone, works), start=1):
            found.append(each)
            status.update(f"{number} of {len(works)} measurements done; last {each.row} on {each.site}")
    order = [row.name for row in ROWS]
    return sorted(found, key=lambda each: (order.index(each.row), each.site))


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    grid = Table(title="demo-fast", title_justify="left")
    for heading in HEADINGS:
        grid.add_column(heading, overflow="fold")
    last = ""
    for row in rows:
        if last and row[0] != last:
            grid.add_section()
        last = row[0]
        grid.add_row(*row)
    Console(width=130).print(grid)


def page(found: Sequence[Measured], sizes: Sizes, held: str) -> str:
    """The measured section of the page: the table, then the figures with a target."""
    cells = cells_of(found)
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    lines += [f"| {' | '.join(cell.cells())} |" for cell in cells]
    chosen = [f"{each.site} {name}: {what}" for each in found for name, what in each.chosen.items()]
    learning = [f"{each.row} on {each.site}: {each.learning_runs:,} runs" for each in found if each.learning_runs]
    seeds = f"{sizes.visible} visible and {sizes.sealed} sealed seeds a task"
    note = f"{os.cpu_count()} cores; {sizes.repetitions} repetitions of {seeds}."
    idle = f"Rows that changed no success, in any cell: {', '.join(idle_rows(cells)) or 'none'}."
    image = f"![Sealed runs that passed, against what was spent](../images/{PICTURE.name})"
    choice, learned = f"The allocator chose: {'; '.join(chosen)}.", f"Learning: {'; '.join(learning)}."
    return "\n\n".join((note, "\n".join(lines), idle, held, choice, learned, image))


if __name__ == "__main__":
    typer.run(main)
