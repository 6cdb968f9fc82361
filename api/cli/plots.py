"""Pictures that a command writes to a file: success over time, uplift of pieces, curves of a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gate.plot import Kind, open_figure, write_figure

from ..errors import BadPicture, NothingToPlot

if TYPE_CHECKING:
    from ..queries.piece_reports import Uplift
    from ..queries.success import SuccessCurve
    from ..queries.trainings import Curves

PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Also draw it to FILE.svg or FILE.png; needs matplotlib."),
]

_KINDS: Final[dict[str, Kind]] = {".svg": "svg", ".png": "png"}
_MICRO: Final = 1_000_000
_BLUE, _GREY = "#2b6cb0", "#a0aec0"


def picture_kind(file: Path) -> Kind:
    """The format of a picture by the ending of its file. Raises BadPicture."""
    kind = _KINDS.get(file.suffix.lower())
    if kind is None or not file.parent.is_dir() or file.is_dir():
        raise BadPicture(actual=str(file), expected=" or ".join(_KINDS))
    return kind


def draw_success(curves: Sequence[SuccessCurve], file: Path) -> None:
    """Draw how often graded runs passed over the log. Raises BadPicture, PlotsMissing, NothingToPlot."""
    kind = picture_kind(file)
    if not curves:
        raise NothingToPlot(actual="no graded run outside evaluations", expected="some in the last 4,000 positions")
    with open_figure((9.0, 2.6 * len(curves))) as figure:
        for row, curve in enumerate(curves):
            axes = figure.add_subplot(len(curves), 1, row + 1)
            places = [point.upto for point in curve.points]
            low, rate, high = (
                [getattr(point, name) / _MICRO for point in curve.points] for name in ("low", "rate", "high")
            )
            axes.fill_between(places, low, high, color=_GREY, alpha=0.35, linewidth=0)
            axes.plot(places, rate, "o-", color=_BLUE, markersize=4)
            axes.set_ylim(-0.02, 1.02)
            axes.grid(visible=True)
            axes.set_title(f"{curve.environment}: graded runs that passed, with 95 % intervals")
            axes.set_xlabel("position of the log")
        file.write_bytes(write_figure(figure, kind))


def draw_uplifts(found: Sequence[tuple[str, Uplift]], file: Path) -> None:
    """Draw how much more often runs passed with each piece. Raises BadPicture, PlotsMissing, NothingToPlot."""
    kind = picture_kind(file)
    if not found:
        raise NothingToPlot(actual="no piece with a trial beside controls", expected="at least one")
    with open_figure((9.0, 1.4 + 0.34 * len(found))) as figure:
        axes = figure.add_subplot()
        for row, (_, uplift) in enumerate(found):
            low, mean, high = (each / _MICRO for each in (uplift.low, uplift.mean, uplift.high))
            axes.plot([low, high], [row, row], color=_GREY, linewidth=2)
            axes.plot([mean], [row], "o", color=_BLUE)
        axes.axvline(0, color=_GREY, linewidth=1)
        axes.set_yticks(range(len(found)), [f"{name} ({uplift.trials})" for name, uplift in found])
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.grid(visible=True, axis="x")
        axes.set_title("Uplift of pieces, with 95 % intervals (trials)")
        axes.set_xlabel("share of runs that passed with the piece, less that without it")
        file.write_bytes(write_figure(figure, kind))


def draw_training(name: str, curves: Curves, file: Path) -> None:
    """Draw the metrics of a stage over its steps. Raises BadPicture, PlotsMissing, NothingToPlot."""
    kind = picture_kind(file)
    if not curves.metrics:
        raise NothingToPlot(actual=f"no step of {name} with measures", expected="a stage that recorded some")
    with open_figure((9.0, 2.2 * len(curves.metrics))) as figure:
        for row, (metric, values) in enumerate(curves.metrics.items()):
            axes = figure.add_subplot(len(curves.metrics), 1, row + 1)
            known = [(step, value) for step, value in zip(curves.steps, values, strict=True) if value is not None]
            axes.plot([step for step, _ in known], [value for _, value in known], color=_BLUE)
            axes.grid(visible=True)
            axes.set_title(f"{name}: {metric.replace('_', ' ')}")
        axes.set_xlabel("step")
        file.write_bytes(write_figure(figure, kind))
