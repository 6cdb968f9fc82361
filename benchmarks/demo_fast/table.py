"""The table of success with interval, cost and score per dollar, per row and group of tasks; and the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agents.envs.sites.helpdesk import drift as helpdesk
from agents.envs.sites.marketplace import drift as marketplace
from agents.learning.allocator import KINDS
from eventlog.events import Interval

from ..report import Target, at_least, at_most, between
from .playing import Measured, Outcome
from .rows import ALL, ALLOCATOR, FROZEN, SINGLES
from .seeds import MICRO, seed_difference, seed_interval

CURABLE: Final = ("navigation", "knowledge", "policy")
NULL: Final = "control"
_ERROR: Final = 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """Totals of one row in one group of tasks, and the intervals of its success."""

    row: str
    group: str
    visible: tuple[int, int]
    sealed: tuple[int, int]
    intervals: tuple[Interval, Interval]
    cost: int
    score: int

    @property
    def sealed_rate(self) -> float:
        """Success rate of the sealed runs."""
        return self.sealed[0] / self.sealed[1] if self.sealed[1] else 0.0

    @property
    def score_a_dollar(self) -> float:
        """Sum of scores divided by the cost of the runs."""
        return self.score / self.cost if self.cost else 0.0

    def cells(self) -> tuple[str, ...]:
        """Cells of the table row."""
        runs = f"{self.visible[1]} + {self.sealed[1]}"
        dollars = f"${self.cost / MICRO:.4f}"
        return (
            self.group,
            self.row,
            _with_interval(self.visible, self.intervals[0]),
            _with_interval(self.sealed, self.intervals[1]),
            runs,
            dollars,
            f"{self.score_a_dollar:,.0f}",
        )


HEADINGS: Final = ("tasks", "row", "visible success", "sealed success", "runs", "cost", "score per $")


def _with_interval(counts: tuple[int, int], interval: Interval) -> str:
    passed, runs = counts
    rate = passed / runs if runs else 0.0
    return f"{rate:.2f} ({interval.low / MICRO:.2f} to {interval.high / MICRO:.2f})"


def group_of(outcome: Outcome) -> str:
    """Group of an outcome: its cluster on marketplace, its task on helpdesk."""
    return f"marketplace {outcome.cluster}" if outcome.site == "marketplace" else outcome.task.replace(".", " ")


def is_drifted(outcome: Outcome) -> bool:
    """True if the site's page addresses at this seed differ from those in the instructions."""
    family_of = marketplace.drift_family if outcome.site == "marketplace" else helpdesk.drift_family
    return family_of(outcome.seed).name != "canonical"


def cells_of(found: Iterable[Measured]) -> list[Cell]:
    """All cells, ordered by group and row, followed by the totals over all tasks."""
    outcomes = [outcome for each in found for outcome in each.outcomes]
    rows = list(dict.fromkeys(outcome.row for outcome in outcomes))
    groups = sorted({group_of(outcome) for outcome in outcomes})
    by_group = [_cell(row, group, [o for o in outcomes if group_of(o) == group]) for group in groups for row in rows]
    return by_group + [_cell(row, "all tasks", outcomes) for row in rows]


def idle_rows(cells: Sequence[Cell]) -> list[str]:
    """Rows that passed as many runs as the frozen row, in every cell."""
    frozen = {cell.group: (cell.visible, cell.sealed) for cell in cells if cell.row == FROZEN}
    moved = {cell.row for cell in cells if (cell.visible, cell.sealed) != frozen[cell.group]}
    return [row for row in dict.fromkeys(cell.row for cell in cells) if row not in moved | {FROZEN}]


def _cell(row: str, group: str, outcomes: Sequence[Outcome]) -> Cell:
    own = _of_row(outcomes, row)
    visible, sealed = [each for each in own if not each.is_sealed], _sealed(own)
    return Cell(
        row,
        group,
        _count_passed(visible),
        _count_passed(sealed),
        (seed_interval(visible), seed_interval(sealed)),
        sum(outcome.cost for outcome in own),
        sum(outcome.score for outcome in own),
    )


def _of_row(outcomes: Iterable[Outcome], row: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.row == row]


def _sealed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.is_sealed]


def _count_passed(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    return sum(outcome.passed for outcome in outcomes), len(outcomes)


def figures_of(
    found: Sequence[Measured],
) -> tuple[dict[str, float], dict[str, Target], dict[str, tuple[float, float]]]:
    """The figures, their targets, and the intervals of some figures."""
    cells = {(cell.group, cell.row): cell for cell in cells_of(found)}
    curable = {group_of(o) for each in found for o in each.outcomes if o.cluster in CURABLE}
    null = {group_of(o) for each in found for o in each.outcomes if o.cluster == NULL}
    singles = [row.name for row in SINGLES]
    figures: dict[str, float] = {}
    targets: dict[str, Target] = {}
    spans: dict[str, tuple[float, float]] = {}
    for group in sorted(curable):
        best = max(cells[group, row].sealed_rate for row in singles)
        figures[f"{group}: frozen, sealed"] = cells[group, FROZEN].sealed_rate
        figures[f"{group}: frozen, sealed, addresses drifted"] = _cell(
            FROZEN, group, [o for each in found for o in each.outcomes if group_of(o) == group and is_drifted(o)]
        ).sealed_rate
        figures[f"{group}: best substrate, sealed"] = best
        figures[f"{group}: allocator less best substrate"] = cells[group, ALLOCATOR].sealed_rate - best
        targets |= {
            f"{group}: frozen, sealed": at_most(0.1),
            f"{group}: frozen, sealed, addresses drifted": at_most(0.1),
            f"{group}: best substrate, sealed": at_least(0.95),
            f"{group}: allocator less best substrate": at_least(-0.05),
        }
    overall: Callable[[str], float] = lambda row: cells["all tasks", row].sealed_rate  # noqa: E731
    for row in (FROZEN, *singles, ALLOCATOR, ALL):
        figures[f"all tasks: {row}, sealed"] = overall(row)
    name = "all tasks: allocator less best single substrate"
    figures[name] = overall(ALLOCATOR) - max(overall(row) for row in singles)
    targets[name] = at_least(0.0001)
    others = [*singles, ALLOCATOR, ALL]
    for group in sorted(null):
        own = _sealed(o for each in found for o in each.outcomes if group_of(o) == group)
        for row in others:
            name = f"{group}: {row} less frozen, sealed"
            figures[name] = cells[group, row].sealed_rate - cells[group, FROZEN].sealed_rate
            spans[name] = seed_difference(_of_row(own, row), _of_row(own, FROZEN), _ERROR / (len(others) * len(null)))
            targets[name] = between(0, 0)
    figures |= {"runs, evaluated": sum(len(each.outcomes) for each in found)}
    figures |= {"runs, learning": sum(each.learning_runs for each in found)}
    figures |= {"runs missing": sum(each.missing for each in found)}
    figures["substrates the allocator knows"] = len(KINDS)
    targets["runs missing"] = at_most(0)
    return figures, targets, spans
