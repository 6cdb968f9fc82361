"""Taint: what was withdrawn and erased, and what was learned from runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from eventlog.chain import EXACT

from ..datasets.freeze import holding_over
from ..queries import taint as queries
from .as_of import LIMIT, HouseOf, Limit, Reading, Wanted, reply, sorted_after
from .errors import Unprocessable
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/taint", tags=["taint"])

_Name = Annotated[str, Query(min_length=1, max_length=200)]
Runs = Annotated[list[_Name] | None, Query(max_length=100, description="a run; may be repeated")]
AfterPosition = Annotated[int, Query(ge=0, le=EXACT, description="withdrawals after this position")]
AfterDigest = Annotated[str | None, sorted_after(64, "erasures of subjects whose digest sorts after this")]


@router.get(
    "",
    summary="What was learned from runs, or from those of a subject",
    responses={200: answer_of(queries.TaintAnswer), 404: problem_of("There is no such run.")},
)
def taint(house: HouseOf, views: Reading, run: Runs = None, subject: Wanted = None) -> Response:
    """`{"tainted": {...}}`: rewrites, datasets, checkpoints, evaluations and champions that the runs went into.

    `runs_under` are other runs that carried one of those rewrites, `rewrites_under` what was learned from them.
    Datasets are selected again as of their own positions, so a long list of them takes a while.
    """
    if not run and subject is None:
        raise Unprocessable(where="the query", actual="without run and subject", expected="one of them, or both")
    return reply(queries.show_taint(views, run or (), subject, holding_over(house.store, house.views)))


@router.get("/withdrawals", summary="What was withdrawn", responses={200: answer_of(queries.WithdrawalList)})
def list_withdrawals(views: Reading, limit: Limit = LIMIT, after: AfterPosition = 0) -> Response:
    """`{"withdrawals": [{"since", "reason", "runs"}], "next": position}`, oldest first; pass `next` as `after`."""
    return reply(queries.list_withdrawals(views, after=after, limit=limit))


@router.get("/erasures", summary="Who was erased", responses={200: answer_of(queries.ErasureList)})
def list_erasures(views: Reading, limit: Limit = LIMIT, after: AfterDigest = None) -> Response:
    """`{"erasures": [{"since", "reason", "subject"}], "next": digest}` in order of the subjects' digests.

    Pass `next` as `after` for the following page.
    """
    return reply(queries.list_erasures(views, after=after, limit=limit))
