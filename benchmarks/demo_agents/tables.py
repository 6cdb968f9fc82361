"""What was measured as rows of a table, and as figures with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from agents.learning.advice import BUDGET
from benchmarks.demo_sites import interval, share
from benchmarks.report import Target, at_least, at_most, report, section

from .learning import Measured

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "agents.md"
HEADINGS: Final = ("obstacles", "site", "lessons", "before", "after", "tried", "promoted", "runs", "calls", "told")


def tell(part: str, found: Sequence[Measured], minutes: float, note: str, budget: int = BUDGET, *, write: bool) -> None:
    """Print what a part measured, and write it into the page's section of it, which has to be there."""
    rows = [cells(each) for each in found]
    grid = Table(*HEADINGS, title=f"demo-agents, {part}: at most {budget} bytes told", title_justify="left")
    for row in rows:
        grid.add_row(*row)
    Console(width=160).print(grid)
    figures, spans = figures_of(found)
    figures |= {
        "runs": float(sum(e.runs for e in found)),
        "calls": float(sum(e.calls for e in found)),
        "most bytes told": float(max(each.told for each in found)),
        "minutes": minutes,
    }
    report(f"demo-agents, {part}", figures, targets_of(figures, found[0].lessons, budget), intervals=spans)
    if write:
        lines = [note, "", f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
        counted = f"{figures['runs']:,.0f} runs and {figures['calls']:,.0f} calls of learning, {minutes:.0f} minutes."
        control = [f"On the control {summary(found)}."] if any(each.is_control for each in found) else []
        section(PAGE, "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), "", counted, *control]), part)


def targets_of(figures: Mapping[str, float], together: str, budget: int) -> dict[str, float | Target]:
    """Targets of the figures that there are: success by the lessons `together`, bytes told, and useless promotions."""
    targets: dict[str, float | Target] = {"most bytes told": at_most(budget)}
    if f"{together}, after" in figures:
        targets[f"{together}, after"] = at_least(0.9)
    if "control, promoted" in figures:
        targets["control, promoted"] = at_most(0.015)
    return targets


def cells(each: Measured) -> tuple[str, ...]:
    """A row of the table."""
    shown = (share(passed, each.sealed) for passed in (each.before, each.after))
    promoted = ", ".join(each.promoted) or "nothing"
    counts = (f"{each.runs:,}", f"{each.calls:,}", f"{each.told} B")
    return (each.obstacle, each.site, each.lessons, *shown, str(each.tried), promoted, *counts)


def figures_of(found: Sequence[Measured]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Success by kinds of lessons over the tasks that can be cured, and on the control, with intervals."""
    figures, spans = dict[str, float](), dict[str, tuple[float, float]]()

    def put(name: str, passed: int, runs: int) -> None:
        figures[name], spans[name] = passed / max(1, runs), interval(passed, max(1, runs))

    for lessons in dict.fromkeys(each.lessons for each in found):
        own = [each for each in found if each.lessons == lessons and not each.is_control]
        if runs := sum(each.sealed for each in own):
            put(f"{lessons}, before", sum(each.before for each in own), runs)
            put(f"{lessons}, after", sum(each.after for each in own), runs)
    if control := [each for each in found if each.is_control]:
        promoted, ended = _on_control(found)
        figures["control, tried"] = float(sum(each.tried for each in control))
        figures["control, decided"] = float(ended)
        put("control, promoted", promoted, ended)
        put("control, after", sum(each.after for each in control), sum(each.sealed for each in control))
    return figures, spans


def summary(found: Sequence[Measured]) -> str:
    """How many lessons that do nothing were tried on the control and how many promoted, with the share's interval."""
    promoted, ended = _on_control(found)
    tried = sum(each.tried for each in found if each.is_control)
    around = f": {share(promoted, ended)}" if ended else ""
    return (
        f"{tried} lessons that do nothing were tried; of {ended} decided candidacies {promoted} were promoted{around}"
    )


def _on_control(found: Sequence[Measured]) -> tuple[int, int]:
    """Candidacies on the control that were promoted, and that were decided."""
    control = [each for each in found if each.is_control]
    return sum(each.won for each in control), sum(each.ended for each in control)
