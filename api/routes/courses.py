"""Courses: what the controller was asked to do on each environment, within which budget, and why it ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from projections.courses import COURSES

from ..errors import Unknown
from .problems import Problem
from .reading import LIMIT, Id, Limit, Reading, reply

router = APIRouter(prefix="/courses", tags=["courses"])

After = Annotated[
    str | None, Query(max_length=200, pattern=r"^[^\x00]*$", description="environments whose name sorts after this")
]


@router.get("", summary="List the last course of each environment")
def list_courses(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"courses": [...], "next": environment}` in order of name bytes: pass `next` as `after` for the following page.

    `rounds`, `runs`, `micro_dollars`, `minutes` and `verdicts` are the budget; null is no bound. `closed` says why the
    course ended; null: it goes on. `opened_at` is in microseconds since 1970.
    """
    start = None if after is None else after.encode()
    found = [state for key, state in views.find(COURSES).items() if start is None or key.encode() > start]
    return reply({"courses": found[:limit], "next": found[limit - 1].environment if len(found) > limit else None})


@router.get(
    "/{environment:path}",
    summary="The courses of one environment",
    responses={404: {"model": Problem, "description": "No course was opened there yet."}},
)
def one_environment(views: Reading, environment: Id) -> Response:
    """`{"course": the last, "history": [{"since": position, "state": ...}]}`, oldest first: opened, changed, closed."""
    state = views.get(COURSES, environment)
    if state is None:
        raise Unknown(what="course", actual=environment, way_out="List them with GET /v1/courses.")
    changes = views.history(COURSES, environment)
    return reply({"course": state, "history": [{"since": item.since, "state": item.state} for item in changes]})
