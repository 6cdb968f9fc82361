"""Checkpoints: what was trained, and what each of them came from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from ..queries import checkpoints as queries
from ..training.lineage import lineage
from .as_of import LIMIT, HouseOf, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .rows import ERASED
from .schemas import answer_of

router = APIRouter(prefix="/checkpoints", tags=["checkpoints"])

Digest = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-f]{8,64}$",
        description="the checkpoint's digest in hexadecimal, or at least its first 8 digits",
    ),
]
After = Annotated[str | None, sorted_after(64, "checkpoints whose digest sorts after this")]

_MISSING = problem_of("There is no such checkpoint.")


@router.get("", summary="List checkpoints", responses={200: answer_of(queries.CheckpointPage)})
def list_checkpoints(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"checkpoints": [...], "next": digest}` in order of digest: pass `next` as `after` for the following page.

    `since` is the position at which each was saved.
    """
    return reply(queries.page_checkpoints(views, after=after, limit=limit))


@router.get("/{digest}", summary="One checkpoint", responses={404: _MISSING, 200: answer_of(queries.CheckpointAnswer)})
def one_checkpoint(views: Reading, digest: Digest) -> Response:
    """`{"checkpoint": ..., "training": ...}`: what it came from, and the stage that gave it."""
    return reply(queries.show_checkpoint(views, digest))


@router.get(
    "/{digest}/lineage",
    summary="What a checkpoint was learned from",
    responses={404: _MISSING, 410: ERASED, 200: answer_of(queries.LineageAnswer)},
)
def lineage_of(house: HouseOf, views: Reading, digest: Digest) -> Response:
    """`{"lineage": [...]}`: the checkpoint, then parents and bases, each with dataset, groups, runs, positions."""
    return reply(lineage(house, views, queries.find_weights(views, digest).checkpoint))
