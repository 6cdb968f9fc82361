"""How every benchmark ends: a table, then one JSON object; a missed target is a figure, not a crash."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table


def medians(arms: dict[str, Callable[[], int]], repeats: int) -> dict[str, float]:
    """Units a second of each arm: the median over interleaved repeats. An arm returns how many units it did."""
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, arm in arms.items():
            began = time.perf_counter()
            units = arm()
            rates[name].append(units / (time.perf_counter() - began))
    return {name: statistics.median(found) for name, found in rates.items()}


def report(name: str, figures: dict[str, float], targets: dict[str, float]) -> None:
    """Print the figures with their targets (at least), and the JSON line."""
    grid = Table(title=name, title_justify="left")
    for column in ("figure", "measured", "target", ""):
        grid.add_column(column)
    missed = [key for key, target in targets.items() if figures[key] < target]
    for key, value in figures.items():
        target = targets.get(key)
        verdict = "" if target is None else "missed" if key in missed else "met"
        grid.add_row(key, f"{value:,.2f}", "" if target is None else f"{target:,.2f}", verdict)
    Console(width=110).print(grid)
    print(json.dumps({"name": name, "figures": figures, "targets": targets, "missed": missed}))
