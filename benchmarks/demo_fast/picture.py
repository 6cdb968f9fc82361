"""Plots sealed success against the cost, including the cost of learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .playing import Measured
from .rows import ROWS

MICRO = 1_000_000


def draw(found: Sequence[Measured], file: Path) -> None:
    """Write the picture as PNG; the curve of a row starts at its learning cost."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 heavy
    from matplotlib.figure import Figure  # noqa: PLC0415 heavy

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for row in ROWS:
        spent, passed = curve(found, row.name)
        axes.plot([each / MICRO for each in spent], passed, label=row.name)
    axes.set_xlabel("dollars spent, learning included")
    axes.set_ylabel("sealed runs that passed")
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Software": None})


def curve(found: Sequence[Measured], row: str) -> tuple[list[int], list[int]]:
    """Cumulative micro-dollars and passed sealed runs, after learning and after each evaluated run."""
    own = [each for each in found if each.row == row]
    spent, passed = [0, sum(each.learning_cost for each in own)], [0, 0]
    for outcome in sorted(
        (o for each in own for o in each.outcomes), key=lambda o: (o.repetition, o.site, o.task, o.seed)
    ):
        spent.append(spent[-1] + outcome.cost)
        passed.append(passed[-1] + (outcome.passed and outcome.is_sealed))
    return spent, passed
