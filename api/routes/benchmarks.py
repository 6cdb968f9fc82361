"""Benchmarks: frozen tasks and seeds, visible and sealed, and what may be spent on them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..queries import benchmarks, ledgers
from .as_of import LIMIT, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"])

After = Annotated[str | None, sorted_after(200, "benchmarks whose name sorts after this")]


@router.get("", summary="List benchmarks", responses={200: answer_of(benchmarks.BenchmarkList)})
def list_benchmarks(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"benchmarks": [...], "next": name}` in order of name, each as it was frozen, and whether it can promote."""
    return reply(benchmarks.list_benchmarks(views, after=after, limit=limit))


@router.get(
    "/{benchmark:path}/ledger",
    summary="What was spent on a benchmark",
    responses={200: answer_of(ledgers.LedgerAnswer), 404: problem_of("There is no such benchmark.")},
)
def one_ledger(views: Reading, benchmark: Id) -> Response:
    """`{"ledger": ...}`: alpha, challengers, what is left, and each evaluation with what it spent and decided."""
    return reply(ledgers.show_ledger(views, benchmark))


@router.get(
    "/{benchmark:path}",
    summary="One benchmark",
    responses={200: answer_of(benchmarks.BenchmarkAnswer), 404: problem_of("There is no such benchmark.")},
)
def one_benchmark(views: Reading, benchmark: Id) -> Response:
    """`{"benchmark": ...}`: its tasks and seeds as they were frozen, and whether it can still promote."""
    return reply(benchmarks.show_benchmark(views, benchmark))
