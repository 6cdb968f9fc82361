"""Datasets: what was frozen, and the rows themselves, made again from the log and checked against the digest."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from ..datasets.card import card_of
from ..datasets.freeze import load
from ..queries import datasets as queries
from .as_of import LIMIT, HouseOf, Limit, Reading, reply, sorted_after
from .errors import Unprocessable
from .problems import problem_of
from .rows import ERASED, ROWS, Wanting, send_rows
from .schemas import answer_of

router = APIRouter(prefix="/datasets", tags=["datasets"])

Digest = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-f]{8,64}$",
        description="the SHA-256 of the rows in hexadecimal, or at least its first 8 digits",
    ),
]
After = Annotated[str | None, sorted_after(64, "datasets whose digest sorts after this")]
QueryLike = Annotated[
    str | None,
    Query(max_length=4_000, description='a JSON object, such as {"kind": "grpo"}: fields that the query has'),
]

_MISSING = problem_of("There is no such dataset.")


@router.get("", summary="List datasets", responses={200: answer_of(queries.DatasetList)})
def list_datasets(views: Reading, limit: Limit = LIMIT, after: After = None, query: QueryLike = None) -> Response:
    """`{"datasets": [...], "next": digest}` in order of digest: pass `next` as `after` for the following page.

    With `query`, only datasets whose query has these values in these fields.

    Each has its query, position, rows, groups, and the runs refused, by reason.
    """
    return reply(queries.page_datasets(views, after=after, limit=limit, like=_read_like(query)))


def _read_like(query: str | None) -> dict[str, Any] | None:
    """The fields to look for. Raises Unprocessable."""
    if query is None:
        return None
    try:
        found = json.loads(query)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unprocessable(where="query", actual=repr(query), expected='a JSON object such as {"kind": "grpo"}')
    return found


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
def rows(house: HouseOf, views: Reading, digest: Digest, wanted: Wanting) -> Response:
    """An Arrow IPC stream, Parquet or NDJSON, built from the log and verified, whole or a range of bytes."""
    whole = queries.find_dataset(views, digest).dataset

    def load_rows() -> Any:
        return load(house.store, house.blobs, house.views, whole, as_of=views.upto).rows

    return send_rows(house, whole, load_rows, wanted)
