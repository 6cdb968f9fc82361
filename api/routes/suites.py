"""Suites: versions of tasks in the log, and the bundled ones."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import suites as queries
from .as_of import LIMIT, HouseOf, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/suites", tags=["suites"])

After = Annotated[str | None, sorted_after(200, "suites whose name sorts after this")]


@router.get("", summary="List suites", responses={200: answer_of(queries.SuiteList)})
def list_suites(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"suites": [...], "next": name}`: every version of at most `limit` suites; pass `next` as `after`."""
    return reply(queries.list_suites(views, after=after, limit=limit))


@router.get(
    "/{suite:path}",
    summary="One version of a suite",
    responses={200: answer_of(queries.SuiteAnswer), 404: problem_of("No such suite or version was brought in.")},
)
def one_suite(house: HouseOf, views: Reading, suite: Id) -> Response:
    """`{"suite", "content"}`: the newest version of `shop`, or another one as `shop@2`."""
    return reply(queries.show_suite(house.store, views, suite))
