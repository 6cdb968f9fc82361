"""The gate: what each benchmark has left to spend, the evaluations, and one verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlog.chain import EXACT
from gate.decision import explain_decision, tell_reasons
from gate.explain import explain, headline
from gate.figures import count_noun, decimal

from ..queries.evaluations import (
    BenchmarkLedger,
    EvidencePoint,
    list_benchmark_ledgers,
    list_evaluations,
    path_of_evidence,
)
from ..queries.untold import may_tell
from ..queries.verdicts import find_verdict
from ..routes.as_of import HouseOf, Id, Reading
from .pages import render_page

router = APIRouter()

PAGE = 25
_PICO = 10**12
Before = Annotated[int | None, Query(ge=1, le=EXACT)]


@router.get("/gate")
def gate(request: Request, house: HouseOf, views: Reading, before: Before = None) -> Response:
    """The ledgers of the benchmarks, and the evaluations, newest first."""
    found, ledgers = list_evaluations(views, before=before, limit=PAGE), list_benchmark_ledgers(views)
    return render_page(
        request,
        "gate.html",
        area="gate",
        position=views.upto,
        ledgers=ledgers,
        total=describe_alpha(ledgers, house.settings.alpha_cap),
        found=found.evaluations,
        following=found.next,
    )


@router.get("/gate/{evaluation:path}")
def one_evaluation(request: Request, views: Reading, evaluation: Id) -> Response:
    """One evaluation: what was decided, why, with which numbers, and what it spent."""
    state = find_verdict(views, evaluation)
    verdict, is_told = state.verdict_reached(), may_tell(views, state.benchmark, evaluation)
    champion, challenger = state.artifacts()
    path = path_of_evidence(state) if is_told else ()
    ledgers = [each for each in list_benchmark_ledgers(views) if each.benchmark == state.benchmark]
    return render_page(
        request,
        "evaluation.html",
        area="gate",
        position=views.upto,
        state=state,
        decision=headline(verdict) if verdict and is_told else _decision_of(state.decision),
        path=path,
        picture=plot_path(path) if path else None,
        families=verdict.families if verdict and is_told else (),
        is_told=is_told,
        champion=champion,
        challenger=challenger,
        rows=(explain if is_told else explain_decision)(verdict)[2:] if verdict else (),
        reasons=(verdict.reasons if is_told else tell_reasons(verdict)) if verdict else (),
        ledger=ledgers[0] if ledgers else None,
    )


def describe_alpha(ledgers: Sequence[BenchmarkLedger], cap: float | None) -> str:
    """The bound on the chance of any false promotion on these benchmarks, and the cap of the project."""
    alpha, left = sum(each.alpha for each in ledgers), sum(each.left for each in ledgers)
    limit = "No cap is set." if cap is None else f"The project is capped at {cap:g}."
    over = count_noun(len(ledgers), "benchmark")
    return f"Together {decimal(alpha)} on {over}, of which {decimal(left)} is left. {limit}"


def plot_path(path: Sequence[EvidencePoint]) -> dict[str, Any]:
    """The picture of the evidence over the looks, and of the boundary that it has to reach, as powers of ten."""
    return {
        "x": [0, *(point.units for point in path)],
        "xLabel": "sealed units looked at",
        "percent": False,
        "range": None,
        "series": [
            {"label": "enough evidence", "values": [None, *(_power(point.boundary) for point in path)], "kind": "edge"},
            {"label": "evidence", "values": [0, *(_power(point.p_value) for point in path)], "kind": "line"},
        ],
    }


def _power(pico: int) -> float:
    """Minus the power of ten of a probability in 10^-12."""
    return -log10(max(pico, 1) / _PICO)


def _decision_of(decision: str | None) -> str:
    match decision:
        case "promote":
            return "The challenger became champion."
        case "hold":
            return "The champion stays: the evidence for the challenger was not enough, or a check was not met."
        case "void":
            return "Nothing was judged: the arms could not be compared."
        case _:
            return "The arms are still playing."
