"""Sweeps: how far each is, and whether its groups can be learned from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..sweeps import answers
from .as_of import LIMIT, HouseOf, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/sweeps", tags=["sweeps"])

After = Annotated[str | None, sorted_after(200, "sweeps that were planned before this one")]

_MISSING = problem_of("There is no such sweep.")


@router.get("", summary="List sweeps", responses={200: answer_of(answers.SweepList), 404: _MISSING})
def list_sweeps(house: HouseOf, views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"sweeps": [...], "next": name}`, newest first: pass `next` as `after` for the following page."""
    return reply(answers.list_progress(house.store, views, after=after, limit=limit))


@router.get("/{sweep:path}", summary="One sweep", responses={200: answer_of(answers.SweepAnswer), 404: _MISSING})
def one_sweep(house: HouseOf, views: Reading, sweep: Id) -> Response:
    """`{"sweep", "groups", "missing"}`: its counts, its groups, and why runs are missing."""
    return reply(answers.show_progress(house.store, views, sweep))
