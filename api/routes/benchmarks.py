"""Benchmarks: frozen tasks and seeds, visible and sealed, and what may be spent on them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..queries import benchmarks, ledgers
from .problems import problem_of
from .reading import Id, Reading, reply
from .schemas import answer_of

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"])


@router.get("", summary="List benchmarks", responses={200: answer_of(benchmarks.BenchmarkList)})
def list_benchmarks(views: Reading) -> Response:
    """`{"benchmarks": [...]}` in order of name, each as it was frozen."""
    return reply(benchmarks.list_benchmarks(views))


@router.get(
    "/{benchmark:path}/ledger",
    summary="What was spent on a benchmark",
    responses={200: answer_of(ledgers.LedgerAnswer), 404: problem_of("There is no such benchmark.")},
)
def one_ledger(views: Reading, benchmark: Id) -> Response:
    """`{"ledger": ...}`: alpha, challengers, what is left, and each evaluation with what it spent and decided."""
    return reply(ledgers.show_ledger(views, benchmark))
