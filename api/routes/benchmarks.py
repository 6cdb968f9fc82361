"""Benchmarks: frozen tasks and seeds, visible and sealed, and what may be spent on them."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from projections.benchmarks import BENCHMARKS

from ..errors import Unknown
from ..evaluations.ledger import ledger
from .problems import Problem
from .reading import Id, Reading, reply

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"])


@router.get("", summary="List benchmarks")
def list_benchmarks(views: Reading) -> Response:
    """`{"benchmarks": [...]}` in order of name, each as it was frozen."""
    return reply({"benchmarks": list(views.find(BENCHMARKS).values())})


@router.get(
    "/{benchmark:path}/ledger",
    summary="What was spent on a benchmark",
    responses={404: {"model": Problem, "description": "There is no such benchmark."}},
)
def one_ledger(views: Reading, benchmark: Id) -> Response:
    """`{"ledger": ...}`: alpha, challengers, what is left, and each evaluation with what it spent and decided."""
    found = ledger(views, benchmark)
    if found is None:
        raise Unknown(what="benchmark", actual=benchmark, way_out="List them with GET /v1/benchmarks.")
    return reply({"ledger": asdict(found)})
