"""How every benchmark ends: a table, then one JSON object; a missed target is a figure, not a crash."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

_BEGIN, _END = "<!-- measured -->", "<!-- end of measured -->"


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure shall reach: at least the bound, at most the bound, or between the bound and `most`."""

    bound: float
    is_ceiling: bool = False
    most: float | None = None

    def is_met(self, low: float, high: float | None = None) -> bool:
        """Whether a measured value is on the right side; of an interval, whether any of it is."""
        high = low if high is None else high
        if self.most is not None:
            return low <= self.most and high >= self.bound
        return low <= self.bound if self.is_ceiling else high >= self.bound

    def plain(self) -> dict[str, float]:
        """As the JSON line has it."""
        if self.most is not None:
            return {"at_least": self.bound, "at_most": self.most}
        return {"at_most" if self.is_ceiling else "at_least": self.bound}

    def __str__(self) -> str:
        """As tables show it."""
        if self.most is not None:
            return f"{shown(self.bound)} to {shown(self.most)}"
        return f"{'≤' if self.is_ceiling else '≥'} {shown(self.bound)}"


def at_least(bound: float) -> Target:
    """A floor."""
    return Target(bound)


def at_most(bound: float) -> Target:
    """A ceiling."""
    return Target(bound, is_ceiling=True)


def between(bound: float, most: float) -> Target:
    """A floor and a ceiling."""
    return Target(bound, most=most)


def shown(value: float) -> str:
    """A number with as many digits as a reader needs."""
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.4g}"  # noqa: PLR2004


def medians(arms: dict[str, Callable[[], int]], repeats: int) -> dict[str, float]:
    """Units a second of each arm: the median over interleaved repeats. An arm returns how many units it did."""
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, arm in arms.items():
            began = time.perf_counter()
            units = arm()
            rates[name].append(units / (time.perf_counter() - began))
    return {name: statistics.median(found) for name, found in rates.items()}


def median_rates(arms: dict[str, Callable[[], tuple[int, float]]], repeats: int) -> dict[str, float]:
    """As `medians`, for arms that time themselves: each returns how many units it did, in how many seconds."""
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
) -> None:
    """Print the figures with their targets (a plain number is a floor), and the JSON line.

    A figure with an interval is shown with it, and missed only where all of the interval lies beyond the target.
    `left_out` names what was not measured, and why. With a `page`, the same table replaces what stands there between
    its two marks, below `note`.
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
        section(page, f"{note}\n\n{table}" if note else table)
    plain = {key: bound.plain() for key, bound in bounds.items()}
    found = {"name": name, "figures": dict(figures), "targets": plain, "missed": missed}
    more = {"intervals": dict(intervals or {}), "left_out": dict(left_out or {})}
    print(json.dumps(found | {key: value for key, value in more.items() if value}))


def held_against(
    figures: Mapping[str, float], targets: Mapping[str, Target], intervals: Mapping[str, tuple[float, float]]
) -> str:
    """The figures that have a target as a table of a page: what was measured, the target, and whether it was missed."""
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
        around = f" ({' to '.join(map(shown, intervals[key]))})" if key in intervals else ""
        rows.append((key, shown(value) + around, "" if bound is None else str(bound), verdict))
    return rows


def _lines(rows: list[tuple[str, str, str, str]]) -> str:
    return "\n".join(
        ["| figure | measured | target | |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    )


def section(page: Path, body: str) -> None:
    """Put `body` between the two marks of a page. Raises ValueError where it has none."""
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, found, after = rest.partition(_END)
    if not found:
        raise ValueError(f"{page} has no place for figures: expected {_BEGIN} and {_END}, each on a line of its own")
    page.write_text(f"{before}{_BEGIN}\n\n{body}\n\n{_END}{after}", encoding="utf-8")
