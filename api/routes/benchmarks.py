"""Benchmarks: frozen tasks and seeds, visible and sealed."""

from __future__ import annotations

from fastapi import APIRouter, Response

from projections.benchmarks import BENCHMARKS

from .reading import Reading, reply

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"])


@router.get("", summary="List benchmarks")
def list_benchmarks(views: Reading) -> Response:
    """`{"benchmarks": [...]}` in order of name, each as it was frozen."""
    return reply({"benchmarks": list(views.find(BENCHMARKS).values())})
