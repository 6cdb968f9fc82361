"""Failures: failed runs, grouped by how they failed."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import failures as queries
from .reading import Reading, reply
from .schemas import answer_of

router = APIRouter(prefix="/failure-clusters", tags=["failures"])


@router.get("", summary="List failure clusters", responses={200: answer_of(queries.FailureList)})
def list_clusters(views: Reading) -> Response:
    """`{"clusters": [...]}`, largest first: environment, template, failure class, step, and the runs that failed so."""
    return reply(queries.list_failures(views))
