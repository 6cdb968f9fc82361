"""The gate: what each benchmark has left to spend, the evaluations, and one verdict in words."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlog.chain import EXACT
from gate.bands import coarse_reasons, explain_bands
from gate.explain import explain

from ..queries.evaluations import list_benchmark_ledgers, list_evaluations
from ..queries.verdicts import find_verdict, may_tell
from ..routes.reading import Id, Reading
from .pages import render_page

router = APIRouter()

PAGE = 25
DECISIONS = {
    "promote": "The challenger became champion.",
    "hold": "The champion stays: the evidence for the challenger was not enough.",
    "void": "Nothing was judged: the arms could not be compared.",
}
Before = Annotated[int | None, Query(ge=1, le=EXACT)]


@router.get("/gate")
def gate(request: Request, views: Reading, before: Before = None) -> Response:
    """The ledgers of the benchmarks, and the evaluations, newest first."""
    found = list_evaluations(views, before=before, limit=PAGE)
    return render_page(
        request,
        "gate.html",
        area="gate",
        position=views.upto,
        ledgers=list_benchmark_ledgers(views),
        found=found.evaluations,
        following=found.next,
    )


@router.get("/gate/{evaluation:path}")
def one_evaluation(request: Request, views: Reading, evaluation: Id) -> Response:
    """One evaluation: what was decided, why, with which numbers, and what it spent."""
    state = find_verdict(views, evaluation)
    verdict, is_told = state.verdict_reached(), may_tell(views, state.benchmark, evaluation)
    champion, challenger = state.artifacts()
    ledgers = [each for each in list_benchmark_ledgers(views) if each.benchmark == state.benchmark]
    return render_page(
        request,
        "evaluation.html",
        area="gate",
        position=views.upto,
        state=state,
        decision=DECISIONS.get(state.decision or "", "The arms are still playing."),
        champion=champion,
        challenger=challenger,
        rows=(explain if is_told else explain_bands)(verdict)[2:] if verdict else (),
        reasons=(verdict.reasons if is_told else coarse_reasons(verdict)) if verdict else (),
        ledger=ledgers[0] if ledgers else None,
    )
