"""Report of every benchmark: a table, then one JSON object. A missed target is reported and does not fail the run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a figure: at least the bound, at most the bound, or between the bound and `most`."""

    bound: float
    is_ceiling: bool = False
    most: float | None = None

    def is_met(self, low: float, high: float | None = None) -> bool:
        """True if a measured value, or any part of an interval, meets the target."""
        high = low if high is None else high
        if self.most is not None:
            return low <= self.most and high >= self.bound
        return low <= self.bound if self.is_ceiling else high >= self.bound

    def plain(self) -> dict[str, float]:
        """The target as values of the JSON line."""
        if self.most is not None:
            return {"at_least": self.bound, "at_most": self.most}
        return {"at_most" if self.is_ceiling else "at_least": self.bound}

    def __str__(self) -> str:
        """The target as shown in tables."""
        if self.most is not None:
            return f"{format_figure(self.bound)} to {format_figure(self.most)}"
        return f"{'≤' if self.is_ceiling else '≥'} {format_figure(self.bound)}"


def at_least(bound: float) -> Target:
    """A lower bound."""
    return Target(bound)


def at_most(bound: float) -> Target:
    """An upper bound."""
    return Target(bound, is_ceiling=True)


def between(bound: float, most: float) -> Target:
    """A lower and an upper bound."""
    return Target(bound, most=most)


def format_figure(value: float) -> str:
    """Format a number with suitable precision."""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.4g}"  # noqa: PLR2004


def medians(arms: dict[str, Callable[[], int]], repeats: int) -> dict[str, float]:
    """Median units per second of each arm, over interleaved repeats. An arm returns its number of units."""
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, arm in arms.items():
            began = time.perf_counter()
            units = arm()
            rates[name].append(units / (time.perf_counter() - began))
    return {name: statistics.median(found) for name, found in rates.items()}


def median_rates(arms: dict[str, Callable[[], tuple[int, float]]], repeats: int) -> dict[str, float]:
    """Like `medians`, for arms that time themselves and return their number of units and seconds."""
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, arm in arms.items():
            units, seconds = arm()
            rates[name].append(units / seconds)
    return {name: statistics.median(found) for name, found in rates.items()}


def percentile(values: list[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, -(-round(share * 1000) * len(values) // 1000) - 1)]


def report(
    name: str,
    figures: Mapping[str, float],
    targets: Mapping[str, float | Target],
    *,
    intervals: Mapping[str, tuple[float, float]] | None = None,
    left_out: Mapping[str, str] | None = None,
    page: Path | None = None,
    note: str = "",
    part: str = "",
) -> list[str]:
    """Print the figures with their targets (a plain number is a lower bound), and the JSON line; return what missed.

    A figure with an interval misses its target only if the whole interval does. `left_out` maps skipped measurements
    to their reasons. With a `page`, `note` and the table replace the text between the two marks of the page, or of
    a `part` of it.
    """
    bounds = {key: target if isinstance(target, Target) else Target(target) for key, target in targets.items()}
    missed = _missed(figures, intervals or {}, bounds)
    rows = _rows(figures, intervals or {}, bounds) + [
        (key, "left out", "", why) for key, why in (left_out or {}).items()
    ]
    grid = Table(title=name, title_justify="left")
    for column in ("figure", "measured", "target", ""):
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    Console(width=120).print(grid)
    if page is not None:
        table = _lines(rows)
        section(page, f"{note}\n\n{table}" if note else table, part)
    plain = {key: bound.plain() for key, bound in bounds.items()}
    found = {"name": name, "figures": dict(figures), "targets": plain, "missed": missed}
    more = {"intervals": dict(intervals or {}), "left_out": dict(left_out or {})}
    print(json.dumps(found | {key: value for key, value in more.items() if value}))
    return missed


def held_against(
    figures: Mapping[str, float], targets: Mapping[str, Target], intervals: Mapping[str, tuple[float, float]]
) -> str:
    """Markdown table of the figures that have a target: measured value, target, and met or missed."""
    return _lines(_rows({key: value for key, value in figures.items() if key in targets}, intervals, targets))


def _missed(
    figures: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], bounds: Mapping[str, Target]
) -> list[str]:
    spans = {key: (value, value) for key, value in figures.items()} | dict(intervals)
    return [key for key, bound in bounds.items() if key in figures and not bound.is_met(*spans[key])]


def _rows(
    figures: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], bounds: Mapping[str, Target]
) -> list[tuple[str, str, str, str]]:
    rows, missed = [], _missed(figures, intervals, bounds)
    for key, value in figures.items():
        bound = bounds.get(key)
        verdict = "" if bound is None else "missed" if key in missed else "met"
        around = f" ({' to '.join(map(format_figure, intervals[key]))})" if key in intervals else ""
        rows.append((key, format_figure(value) + around, "" if bound is None else str(bound), verdict))
    return rows


def _lines(rows: list[tuple[str, str, str, str]]) -> str:
    return "\n".join(
        ["| figure | measured | target | |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def section(page: Path, body: str, part: str = "") -> None:
    """Replace the text between the two marks of a page, or of a part of it. Raises ValueError if a mark is missing."""
    of_part = f", {part}" if part else ""
    begin, end = f"<!-- measured{of_part} -->", f"<!-- end of measured{of_part} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{page} has no section for figures: expected {begin} and {end}, each on a separate line")
    page.write_text(f"{before}{begin}\n\n{body}\n\n{end}{after}", encoding="utf-8")
