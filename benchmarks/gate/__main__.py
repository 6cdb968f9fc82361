"""`make bench-gate`: the gate's decisions on simulated evaluations, with 95 % intervals, and the speed of a verdict."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.report import Target, at_least, at_most, between, report
from gate.intervals import wilson

from .sequences import Answers, answered, gathered, questions
from .simulating import Count, Job, asked
from .speed import speeds
from .worlds import BASE, World

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "gate.md"
PROCESSES = 2
PARTS = 8

WORLDS = tuple((is_uneven, is_lacking) for is_uneven in (False, True) for is_lacking in (False, True))


@dataclass(frozen=True, slots=True)
class Line:
    """A question for each of four simulated worlds, and the targets of its figures."""

    title: str
    question: str
    times: int
    alpha: int
    challenger: float
    targets: dict[str, Target]
    instances: int = 100
    has_regression: bool = False


BETTER = 0.75
LINES = (
    Line(
        "20 without a difference, K = 20, stopped early",
        "any early",
        1_000,
        2_500,
        BASE,
        {"any promoted": at_most(0.05)},
    ),
    Line(
        "one instance .9 → .1 beside a gain",
        "caught",
        400,
        5_000,
        BETTER,
        {"caught": at_least(0.7)},
        has_regression=True,
    ),
    Line("95 % interval of .15", "covered", 750, 5_000, BETTER, {"covered": between(0.93, 0.97)}),
    Line("the seeds' gate, no difference, 100 × 3", "seeds", 300, 0, BASE, {}),
    Line("the seeds' gate, .60 → .75, 100 × 3", "seeds", 150, 0, BETTER, {}),
)
SPEED = {
    "1000 instances, continuous scores, verdict / scipy.stats.permutation_test, times as fast": at_least(2),
    "1000 instances, binary scores, verdict / scipy.stats.permutation_test, times as fast": at_least(10),
}


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run for about a minute, as a trial.")] = False,
    write: Annotated[bool, typer.Option("--write", help=f"Also write the table into {PAGE.name}.")] = False,
) -> None:
    """Judge simulated evaluations with the real gate, and measure the speed of a verdict."""
    if write and quick:
        raise typer.BadParameter("--write needs a full run: omit --quick")
    with Console(stderr=True).status("measuring: speed of a verdict"):
        figures = speeds(3 if quick else 9)
    found, bounds = sequenced(20 if quick else 1)
    counts, targets = simulated(8 if quick else 1)
    intervals = {figure: spanned(*count) for figure, count in (found.rates | counts).items()}
    report(
        "gate",
        {figure: yes / of for figure, (yes, of) in (found.rates | counts).items()} | found.figures | figures,
        bounds | targets | SPEED,
        intervals=intervals,
        page=PAGE if write else None,
        note=f"{os.cpu_count()} cores; simulated rates with their 95 % Wilson intervals.",
    )


def sequenced(divisor: int) -> tuple[Answers, dict[str, Target]]:
    """Ask every question of sequential evaluations in two processes; `divisor` reduces the number of evaluations."""
    asked_now = [question.divided_by(divisor) for question in questions()]
    with ProcessPoolExecutor(PROCESSES) as pool, Console(stderr=True).status("measuring: sequential evaluations"):
        return gathered(list(pool.map(answered, asked_now)))


def simulated(divisor: int) -> tuple[Count, dict[str, Target]]:
    """Simulate every line in every world, in two processes; `divisor` reduces the number of evaluations."""
    named = [
        (line, World(line.instances, line.challenger, *world, line.has_regression))
        for line in LINES
        for world in WORLDS
    ]
    jobs = [
        (line, Job(line.question, world, line.alpha, max(1, line.times // divisor // PARTS), number * PARTS + part))
        for number, (line, world) in enumerate(named)
        for part in range(PARTS)
    ]
    with ProcessPoolExecutor(PROCESSES) as pool, Console(stderr=True).status("measuring: simulated evaluations"):
        found = list(pool.map(asked, [job for _, job in jobs]))
    counts: Count = {}
    targets: dict[str, Target] = {}
    for (line, job), count in zip(jobs, found, strict=True):
        for part, (yes, of) in count.items():
            figure = f"{line.title}, {part}; {job.world}"
            before = counts.get(figure, (0, 0))
            counts[figure] = before[0] + yes, before[1] + of
            if part in line.targets:
                targets[figure] = line.targets[part]
    return counts, targets


def spanned(yes: int, of: int) -> tuple[float, float]:
    """95 % interval of a simulated rate."""
    interval = wilson(yes, of)
    return interval.low / 1e6, interval.high / 1e6


if __name__ == "__main__":
    typer.run(main)
