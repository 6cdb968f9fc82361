"""Taint: what was withdrawn and erased, and what was learned from runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Response

from projections.runs import RUNS
from projections.taint import ERASED, TAINT, WITHDRAWN, runs_of_subject

from ..errors import Unknown
from ..history.withdraw import taint_of_runs
from .errors import Unprocessable
from .problems import Problem
from .reading import HouseOf, Reading, Wanted, reply

router = APIRouter(prefix="/taint", tags=["taint"])

_Name = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Runs = Annotated[list[_Name] | None, Query(max_length=100, description="a run; may be repeated")]


@router.get(
    "",
    summary="What was learned from runs, or from those of a subject",
    responses={404: {"model": Problem, "description": "There is no such run."}},
)
def taint(house: HouseOf, views: Reading, run: Runs = None, subject: Wanted = None) -> Response:
    """`{"tainted": {...}}`: rewrites, datasets, checkpoints, evaluations and champions that the runs went into.

    `runs_under` are other runs that carried one of those rewrites, `rewrites_under` what was learned from them.
    Datasets are selected again as of their own positions, so a long list of them takes a while.
    """
    if not run and subject is None:
        raise Unprocessable(where="the query", actual="without run and subject", expected="one of them, or both")
    unknown = next((name for name in run or () if views.get(RUNS, name) is None), None)
    if unknown is not None:
        raise Unknown(what="run", actual=unknown, way_out="List them with GET /v1/runs.")
    runs = {*(run or ()), *(() if subject is None else runs_of_subject(views, subject))}
    return reply({"tainted": asdict(taint_of_runs(house, views, runs))})


@router.get("/withdrawals", summary="What was withdrawn")
def list_withdrawals(views: Reading) -> Response:
    """`{"withdrawals": [{"since", "reason", "runs"}]}`, oldest first."""
    found = views.find(TAINT, WITHDRAWN).values()
    return reply({"withdrawals": [{"since": s.since, "reason": s.reason, "runs": s.runs} for s in found]})


@router.get("/erasures", summary="Who was erased")
def list_erasures(views: Reading) -> Response:
    """`{"erasures": [{"since", "reason", "subject"}]}`, oldest first."""
    found = sorted(views.find(TAINT, ERASED).values(), key=lambda state: state.since)
    return reply({"erasures": [{"since": s.since, "reason": s.reason, "subject": s.subject} for s in found]})
