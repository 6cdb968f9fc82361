"""Draws a verdict from the log, with its arms as of the verdict's position."""

from __future__ import annotations

from pathlib import Path

from eventlog.store import Position
from gate.drawing import Drawing, draw_verdict
from gate.plot import Kind, plot
from projections.benchmarks import BENCHMARKS
from projections.verdicts import VERDICTS, VerdictState

from ..errors import BadPicture, Unknown
from ..house import House
from ..queries.facts import require
from .arms import sides

KINDS: dict[str, Kind] = {".svg": "svg", ".png": "png"}


def picture(house: House, state: VerdictState, file: Path) -> None:
    """Draw a verdict into a file, in the format of its suffix. Raises BadPicture, PlotsMissing, and as `drawing_of`."""
    kind = KINDS.get(file.suffix.lower())
    if kind is None or not file.parent.is_dir() or file.is_dir():
        raise BadPicture(actual=str(file), expected=" or ".join(KINDS))
    file.write_bytes(plot(drawing_of(house, state), kind))


def drawing_of(house: House, state: VerdictState) -> Drawing:
    """Compute the drawing of a verdict. Raises Unknown if there is no verdict yet, NothingToDraw."""
    evaluation, verdict = state.evaluation, state.verdict_reached()
    if verdict is None:
        raise Unknown(
            what="verdict", actual=evaluation, way_out="The evaluation has no verdict yet; `flywheel run` continues it."
        )
    reached = [c.since for c in house.views().history(VERDICTS, evaluation) if c.state and c.state.decision]
    views = house.views(Position(reached[0] - 1))
    champion, challenger, benchmark, _, _ = sides(
        views, state, require(views.get(BENCHMARKS, state.benchmark)).frozen_event()
    )
    return draw_verdict(evaluation, verdict, champion, challenger, benchmark)
