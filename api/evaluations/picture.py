"""Draws a verdict from the log, with its arms as of the verdict's position."""

from __future__ import annotations

from pathlib import Path

from eventlog.events import Verdict
from eventlog.store import Position
from gate.drawing import Drawing, draw_verdict
from gate.plot import Kind, plot
from projections.benchmarks import BENCHMARKS
from projections.verdicts import VERDICTS, VerdictState

from ..errors import BadPicture, PictureSealed, Unknown
from ..house import House
from ..queries.facts import require
from ..queries.untold import may_tell
from .arms import sides

KINDS: dict[str, Kind] = {".svg": "svg", ".png": "png"}


def picture(house: House, state: VerdictState, file: Path) -> None:
    """Draw a verdict into a file, in the format of its suffix.

    Raises BadPicture, PlotsMissing, NothingToDraw, Unknown if there is no verdict yet, PictureSealed if its figures may
    not be told.
    """
    kind = KINDS.get(file.suffix.lower())
    if kind is None or not file.parent.is_dir() or file.is_dir():
        raise BadPicture(actual=str(file), expected=" or ".join(KINDS))
    _verdict_of(state)
    if not may_tell(house.views(), state.benchmark, state.evaluation):
        raise PictureSealed(evaluation=state.evaluation, benchmark=state.benchmark)
    file.write_bytes(plot(drawing_of(house, state), kind))


def _verdict_of(state: VerdictState) -> Verdict:
    """The verdict of an evaluation. Raises Unknown if there is none yet."""
    verdict = state.verdict_reached()
    if verdict is None:
        way_out = "The evaluation has no verdict yet; `flywheel run` continues it."
        raise Unknown(what="verdict", actual=state.evaluation, way_out=way_out)
    return verdict


def drawing_of(house: House, state: VerdictState) -> Drawing:
    """Compute the drawing of a verdict. Raises Unknown if there is no verdict yet, NothingToDraw."""
    evaluation, verdict = state.evaluation, _verdict_of(state)
    reached = [c.since for c in house.views().history(VERDICTS, evaluation) if c.state and c.state.decision]
    views = house.views(Position(reached[0] - 1))
    champion, challenger, benchmark, _, _ = sides(
        views, state, require(views.get(BENCHMARKS, state.benchmark)).frozen_event()
    )
    return draw_verdict(evaluation, verdict, champion, challenger, benchmark)
