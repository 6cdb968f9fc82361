"""Courses: what the controller was asked to do on each environment, within which budget, and why it ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from eventlog.events import CourseLoop

from ..queries import courses as queries
from .as_of import LIMIT, AfterPosition, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/courses", tags=["courses"])

After = Annotated[str | None, sorted_after(210, "courses whose place sorts after this")]
Loop = Annotated[CourseLoop, Query(description="which loop's courses")]


@router.get(
    "",
    summary="List the last course of each loop on each environment",
    responses={200: answer_of(queries.CoursePage)},
)
def list_courses(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"courses": [...], "next": place}` in order of place bytes: pass `next` as `after` for the following page.

    The place of a course is its loop and its environment, such as `fast/shop`. `rounds`, `runs`, `micro_dollars`,
    `minutes` and `verdicts` are the budget; null is no bound. `closed` says why the course ended and `closed_since` at
    which position; both are null while it is open. `ended` counts its ends: a course that is opened again goes on.
    `opened_at` is in microseconds since 1970. Where both loops have turns, `turns` counts those of this course;
    `turn_since` is the position at which the last one was chosen, `turn_reason` why: `untried`, `worth`, `other_ended`
    or `no_base`.
    """
    return reply(queries.list_courses(views, after=after, limit=limit))


@router.get(
    "/{environment:path}",
    summary="The courses of one loop on one environment",
    responses={200: answer_of(queries.CourseAnswer), 404: problem_of("No course of this loop was opened there yet.")},
)
def one_environment(
    views: Reading, environment: Id, loop: Loop = "fast", limit: Limit = LIMIT, after: AfterPosition = 0
) -> Response:
    """`{"course": the last, "history": [{"since": position, "state": ...}], "next": position}`, oldest first."""
    return reply(queries.show_course(views, environment, loop, after=after, limit=limit))
