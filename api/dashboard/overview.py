"""The overview: the loop with its counts, who is champion, success over time, and what runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from projections.courses import CourseState
from projections.engine.views import PostgresViews
from projections.evaluations import EVALUATIONS
from projections.verdicts import VERDICTS

from ..house import House
from ..queries.benchmarks import pick_benchmarks
from ..queries.courses import describe_turn, list_courses
from ..queries.overview import show_overview
from ..queries.runs import count_ended_runs
from ..queries.success import SuccessCurve, success_curves
from ..queries.sweeps import list_sweeps, plans_of
from ..queries.trainings import list_trainings
from ..queries.untold import may_tell
from ..routes.as_of import HouseOf, Reading
from ..sweeps.progress import sweep_progress
from .pages import render_page

router = APIRouter()

MOST_SHOWN = 6
"""Sweeps and evaluations whose progress is shown."""

MOST_COUNTED = 400
"""Runs of an evaluation that are counted for its progress; one that may need more is as far as its last look says,

which is not told while its benchmark can judge."""

_LISTED = 200


@dataclass(frozen=True, slots=True)
class Work:
    """Something that runs: what, its name, where to read on (None: nowhere), how much of it is done, and words."""

    what: str
    name: str
    path: str | None
    query: dict[str, str]
    done: int | None
    total: int | None
    says: str


@router.get("/")
def overview(request: Request, house: HouseOf, views: Reading) -> Response:
    """The whole overview."""
    curves = success_curves(house.store, views)
    return render_page(
        request,
        "overview.html",
        area="overview",
        position=views.upto,
        loop=show_overview(views),
        curves=[(curve, plot_success(curve)) for curve in curves],
        work=list_work(house, views),
    )


@router.get("/parts/overview")
def live_overview(request: Request, house: HouseOf, views: Reading) -> Response:
    """The moving parts of the overview: the counts and the work that runs."""
    work = list_work(house, views)
    return render_page(request, "parts/loop.html", position=views.upto, loop=show_overview(views), work=work)


def plot_success(curve: SuccessCurve) -> dict[str, Any]:
    """The picture of a curve: the rate, and the interval around it."""
    return {
        "x": [point.upto for point in curve.points],
        "xLabel": "position",
        "percent": True,
        "range": [0, 1],
        "series": [
            {"label": "upper", "values": [point.high / 1e6 for point in curve.points], "kind": "edge"},
            {"label": "passed", "values": [point.rate / 1e6 for point in curve.points], "kind": "line"},
            {"label": "lower", "values": [point.low / 1e6 for point in curve.points], "kind": "edge"},
        ],
    }


def list_work(house: House, views: PostgresViews) -> tuple[Work, ...]:
    """Work that runs as of the views' position: courses, sweeps, evaluations, trainings."""
    return (*_courses(views), *_sweeps(house, views), *_evaluations(views), *_trainings(views))


def _courses(views: PostgresViews) -> list[Work]:
    found = (course for course in list_courses(views, limit=_LISTED).courses if course.is_open)
    return [
        Work("course", f"{course.loop} loop on {course.environment}", None, {}, None, None, _says(course))
        for course in found
    ]


def _says(course: CourseState) -> str:
    return "; ".join(filter(None, (f"course {course.number}", describe_turn(course))))


def _sweeps(house: House, views: PostgresViews) -> list[Work]:
    names = [name for state in list_sweeps(views).values() for name in state.open][-MOST_SHOWN:]
    found = sweep_progress(views, [event for name in names for event in plans_of(house.store, views, name)])
    return [
        Work("sweep", each.sweep, "/runs", {"sweep": each.sweep}, each.graded + each.missing, each.received,
             f"{each.sentence()}; {each.passed} passed")
        for each in found
    ]  # fmt: skip


def _evaluations(views: PostgresViews) -> list[Work]:
    every = [each for state in views.find(EVALUATIONS).values() for each in state.evaluations if each.is_open]
    shown = every[-MOST_SHOWN:]
    benchmarks = pick_benchmarks(views, [each.benchmark for each in shown])
    verdicts = views.pick(VERDICTS, [each.evaluation for each in shown])
    found = []
    for each in shown:
        state, verdict = benchmarks.get(each.benchmark), verdicts.get(each.evaluation)
        total = None if state is None else 2 * len(state.tasks) * max(1, state.repeats)
        says = f"on {each.benchmark}"
        if total is not None and total <= MOST_COUNTED:
            done: int | None = min(total, count_ended_runs(views, f"{each.evaluation}__", most=MOST_COUNTED))
        elif verdict is not None and verdict.looks and may_tell(views, verdict.benchmark, each.evaluation):
            done, total = verdict.runs, verdict.most_runs
        else:
            done, total = None, None
        found.append(Work("evaluation", each.evaluation, f"/gate/{each.evaluation}", {}, done, total, says))
    return found


def _trainings(views: PostgresViews) -> list[Work]:
    found = (state for state in list_trainings(views, limit=_LISTED).trainings if state.status == "started")
    return [
        Work("training", state.training, f"/training/{state.training}", {}, state.step, state.of or None,
             f"step {state.step} of {state.of}" if state.of else "no step reported yet")
        for state in found
    ]  # fmt: skip
