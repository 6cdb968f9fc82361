"""Failures: failed runs, grouped by how they failed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import failures as queries
from .as_of import Limit, Reading, reply, sorted_after
from .schemas import answer_of

router = APIRouter(prefix="/failure-clusters", tags=["failures"])

After = Annotated[str | None, sorted_after(200, "runs whose name sorts after this")]


@router.get("", summary="List failure clusters", responses={200: answer_of(queries.FailureList)})
def list_clusters(views: Reading, limit: Limit = queries.MOST_FAILED, after: After = None) -> Response:
    """`{"clusters": [...], "next": run}`, largest first: environment, template, failure class, step, and the runs.

    The clusters are of `limit` failed runs in order of name bytes: pass `next` as `after` for the following ones.
    """
    return reply(queries.list_failures(views, after=after, limit=limit))
