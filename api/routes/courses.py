"""Courses: what the controller was asked to do on each environment, within which budget, and why it ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from eventlog.events import CourseLoop
from projections.courses import COURSES, course_key

from ..errors import Unknown
from .problems import Problem
from .reading import LIMIT, Id, Limit, Reading, reply

router = APIRouter(prefix="/courses", tags=["courses"])

After = Annotated[
    str | None, Query(max_length=210, pattern=r"^[^\x00]*$", description="courses whose place sorts after this")
]
Loop = Annotated[CourseLoop, Query(description="which loop's courses")]


@router.get("", summary="List the last course of each loop on each environment")
def list_courses(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"courses": [...], "next": place}` in order of name bytes: pass `next` as `after` for the following page.

    The place of a course is its loop and its environment, such as `fast/marketplace`. `rounds`, `runs`,
    `micro_dollars`, `minutes` and `verdicts` are the budget; null is no bound. `closed` says why the course ended,
    `closed_since` at which position; null: it goes on. `opened_at` is in microseconds since 1970.
    """
    start = None if after is None else after.encode()
    found = [(key, state) for key, state in views.find(COURSES).items() if start is None or key.encode() > start]
    return reply(
        {
            "courses": [state for _, state in found[:limit]],
            "next": found[limit - 1][0] if len(found) > limit else None,
        }
    )


@router.get(
    "/{environment:path}",
    summary="The courses of one loop on one environment",
    responses={404: {"model": Problem, "description": "No course of this loop was opened there yet."}},
)
def one_environment(views: Reading, environment: Id, loop: Loop = "fast") -> Response:
    """`{"course": the last, "history": [{"since": position, "state": ...}]}`, oldest first: opened, changed, closed."""
    key = course_key(environment, loop)
    state = views.get(COURSES, key)
    if state is None:
        raise Unknown(what="course", actual=key, way_out="List them with GET /v1/courses.")
    changes = views.history(COURSES, key)
    return reply({"course": state, "history": [{"since": item.since, "state": item.state} for item in changes]})
