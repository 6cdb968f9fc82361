"""Failures: failed runs, grouped by how they failed."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from projections.contamination import contaminated_runs
from projections.failures import FAILURES, clusters

from .reading import Reading, reply

router = APIRouter(prefix="/failure-clusters", tags=["failures"])


@router.get("", summary="List failure clusters")
def list_clusters(views: Reading) -> Response:
    """`{"clusters": [...]}`, largest first: environment, template, failure class, step, and the runs that failed so."""
    found = clusters(views.find(FAILURES).values(), contaminated_runs(views))
    return reply({"clusters": [asdict(cluster) for cluster in found]})
