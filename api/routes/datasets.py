"""Datasets: what was frozen, and the rows themselves, made again from the log and checked against the digest."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from ..datasets.card import card_of
from ..datasets.freeze import load
from ..queries import datasets as queries
from .as_of import LIMIT, HouseOf, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .rows import ARROW, ERASED, NDJSON, ROWS, Accept, IfNoneMatch, send_rows
from .schemas import answer_of

__all__ = ["ARROW", "NDJSON", "router"]

router = APIRouter(prefix="/datasets", tags=["datasets"])

Digest = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-f]{8,64}$",
        description="the SHA-256 of the rows in hexadecimal, or at least its first 8 digits",
    ),
]
After = Annotated[str | None, sorted_after(64, "datasets whose digest sorts after this")]

_MISSING = problem_of("There is no such dataset.")


@router.get("", summary="List datasets", responses={200: answer_of(queries.DatasetList)})
def list_datasets(views: Reading, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"datasets": [...], "next": digest}` in order of digest: pass `next` as `after` for the following page.

    Each has its query, position, rows, groups, and the runs refused, by reason.
    """
    return reply(queries.page_datasets(views, after=after, limit=limit))


@router.get("/{digest}", summary="One dataset", responses={404: _MISSING, 200: answer_of(queries.DatasetAnswer)})
def one_dataset(views: Reading, digest: Digest) -> Response:
    """`{"dataset": ...}` as it was frozen."""
    return reply(queries.show_dataset(views, digest))


@router.get(
    "/{digest}/card",
    summary="A dataset's card",
    response_class=Response,
    responses={404: _MISSING, 410: ERASED, 200: {"description": "Markdown.", "content": {"text/markdown": {}}}},
)
def card(house: HouseOf, views: Reading, digest: Digest) -> Response:
    """Description of the dataset in Markdown: its content, refused runs and reasons, its columns, its origin."""
    text = card_of(house.store, house.blobs, house.views, queries.find_dataset(views, digest))
    return Response(text, media_type="text/markdown")


@router.get(
    "/{digest}/rows",
    summary="The rows of a dataset",
    response_class=Response,
    responses={404: _MISSING, **ROWS},
)
def rows(
    house: HouseOf, views: Reading, digest: Digest, accept: Accept = None, if_none_match: IfNoneMatch = None
) -> Response:
    """An Arrow IPC stream or NDJSON, recomputed from the log and verified. The ETag is the digest."""
    whole = queries.find_dataset(views, digest).dataset

    def load_rows() -> Any:
        return load(house.store, house.blobs, house.views, whole, as_of=views.upto).rows

    return send_rows(house, whole, load_rows, accept, if_none_match)
