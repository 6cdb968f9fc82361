"""What a part of the demonstration tells at its end: success by arm and column, differences, and what each arm took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.report import Target, at_least, report

from .arms import ARMS, CONTROL, LOOP, SFT, Arm
from .differences import Difference, two_way
from .effort import PRIMARY
from .stage import Outcomes, success
from .subject import Subject

PAGE: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "real.md"
PLAIN: Final = "base"
SCHEMA: Final = "base under a schema"
_LEAST: Final = 0.000_001

Held = Mapping[str, Sequence[Mapping[str, Outcomes]]]
"""Held-out outcomes by arm, training seed (one for an arm that is not trained) and column."""


def tell(subject: Subject, held: Held) -> None:
    """Print success on held-out instances by arm and column."""
    grid = Table(title="success on held-out instances, mean of the training seeds", title_justify="left")
    for column in ("arm", *subject.columns):
        grid.add_column(column, overflow="fold")
    for row in _rows(subject, held):
        grid.add_row(*row)
    Console(width=140).print(grid)


def report_part(
    subject: Subject, held: Held, arms: Sequence[Arm], told: Mapping[str, float], *, write: bool, is_judged: bool
) -> None:
    """Print the figures of a part, and with `write` put them into its section of the page.

    `told` are more figures; `is_judged` says that the gate's verdict is among them.
    """
    found = _differences(subject, held)
    lowest = f"{PRIMARY}, low end of the interval"
    figures = {
        **{f"held out, {arm}": _mean(held, arm, subject.compared) for arm in held},
        **{name: each.mean for name, each in found.items()},
        **told,
        lowest: found[PRIMARY].low,
    }
    targets: dict[str, float | Target] = {"promoted by the gate": at_least(1)} if is_judged else {}
    targets[lowest] = at_least(_LEAST)
    intervals = {name: (each.low, each.high) for name, each in found.items()}
    page, note = (PAGE, _note(subject, held, arms, found)) if write else (None, "")
    report(f"demo-real, {subject.name}", figures, targets, intervals=intervals, page=page, note=note, part=subject.name)


def _over_seeds(held: Held, arm: str, column: str, many: int) -> list[Outcomes]:
    """Outcomes of an arm in a column, one for each training seed."""
    found = [each[column] for each in held[arm]]
    return found * many if len(found) == 1 else found


def _differences(subject: Subject, held: Held) -> dict[str, Difference]:
    """Differences on what is trained: of each arm to the base, of the loop to the others; and on the other tasks."""
    seeds = len(subject.effort.training_seeds)

    def less(one: str, other: str, column: str) -> Difference:
        return two_way(_over_seeds(held, other, column, seeds), _over_seeds(held, one, column, seeds))

    pairs = [(LOOP, CONTROL), (LOOP, SFT), *((arm, PLAIN) for arm in ARMS), (LOOP, SCHEMA)]
    found = {f"{one} - {other}": less(one, other, subject.compared) for one, other in pairs}
    return found | {f"{LOOP} - {CONTROL}, {column}": less(LOOP, CONTROL, column) for column in subject.others}


def _mean(held: Held, arm: str, column: str) -> float:
    return sum(success(each[column]) for each in held[arm]) / len(held[arm])


def _rows(subject: Subject, held: Held) -> list[tuple[str, ...]]:
    return [(arm, *(f"{_mean(held, arm, column):.3f}" for column in subject.columns)) for arm in held]


def _note(subject: Subject, held: Held, arms: Sequence[Arm], found: Mapping[str, Difference]) -> str:
    """Text of the page above the figures: sizes, success by column, and what each arm took."""
    columns, effort = ("arm", *subject.columns), subject.effort
    table = [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(row)} |" for row in _rows(subject, held)),
    ]
    spent = ["| arm | training seed | runs | steps | tokens trained |", "|---|---|---|---|---|"]
    spent += [
        f"| {arm.name} | {arm.training_seed} | {arm.spent.runs:,} | {arm.spent.steps} | {arm.spent.tokens:,} |"
        for arm in arms
    ]
    each = ", ".join(
        f"{seed}: {own:+.3f}" for seed, own in zip(effort.training_seeds, found[PRIMARY].by_seed, strict=True)
    )
    sizes = (
        f"{effort.held_out} held-out instances of each trained task, {effort.held_out_others} of all else, "
        f"{len(effort.training_seeds)} training seeds. The comparison named beforehand is {PRIMARY}; "
        f"by training seed: {each}."
    )
    return "\n\n".join((sizes, "\n".join(table), "\n".join(spent)))
