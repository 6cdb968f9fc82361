"""Success over time: how often graded runs passed, in order of their grades, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from eventlog.events import RewardGraded
from eventlog.store import EventStore, Position
from projections.engine.views import Views
from projections.runs import RUNS

WINDOW = 4_000
"""Positions that are looked back over, so that the curve costs the same in any log."""

LEAST, PARTS = 8, 24
"""A point stands for at least so many grades; a curve has at most so many points."""

Graded = tuple[int, bool]
"""The position of a grade, and whether the run passed."""


class SuccessPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Grades up to the position `upto`: `rate` with its 95 % Wilson interval, in millionths."""

    upto: int
    graded: int
    passed: int
    rate: int
    low: int
    high: int


class SuccessCurve(msgspec.Struct, frozen=True):
    """The success of one environment over time, oldest first."""

    environment: str
    points: tuple[SuccessPoint, ...]


def success_curves(store: EventStore, views: Views, window: int = WINDOW) -> tuple[SuccessCurve, ...]:
    """The curve of each environment over the grades of the last `window` positions, in order of name.

    Runs of evaluations are left out: their results are for the gate to tell. Grades of runs that were graded before
    are left out too.
    """
    start = Position(max(0, int(views.upto) - window))
    recorded = store.read(after=start, upto=views.upto, types=["RewardGraded"])
    grades = [(int(item.position), item.event) for item in recorded if isinstance(item.event, RewardGraded)]
    runs = views.pick(RUNS, [grade.run for _, grade in grades])
    found: dict[str, list[Graded]] = {}
    for position, grade in grades:
        run = runs.get(grade.run)
        if run is not None and run.evaluation is None and not grade.again:
            found.setdefault(run.environment, []).append((position, grade.passed))
    return tuple(SuccessCurve(name, tuple(_points(own))) for name, own in sorted(found.items()))


def _points(grades: Sequence[Graded]) -> Iterable[SuccessPoint]:
    size = max(LEAST, -(-len(grades) // PARTS))
    for start in range(0, len(grades), size):
        yield _point(grades[start : start + size])


def _point(grades: Sequence[Graded]) -> SuccessPoint:
    from gate.intervals import wilson  # noqa: PLC0415 it brings numpy, which the application does without

    passed = sum(won for _, won in grades)
    interval = wilson(passed, len(grades))
    return SuccessPoint(
        upto=grades[-1][0],
        graded=len(grades),
        passed=passed,
        rate=1_000_000 * passed // len(grades),
        low=interval.low,
        high=interval.high,
    )
