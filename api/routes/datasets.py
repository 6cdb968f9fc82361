"""Datasets: what was frozen, and the rows themselves, made again from the log and checked against the digest."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Annotated, Any

import polars as pl
from fastapi import APIRouter, Header, Path, Response
from fastapi.responses import StreamingResponse

from projections.checkpoints import CHECKPOINTS
from projections.taint import erasures

from ..datasets import find, load
from .errors import NotAcceptable
from .negotiation import preferred
from .problems import Problem
from .reading import HouseOf, Reading, reply

router = APIRouter(prefix="/datasets", tags=["datasets"])

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
OFFERED = (ARROW, NDJSON)

_CHUNK = 1 << 20

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="the SHA-256 of the rows, in hexadecimal")]
Accept = Annotated[str | None, Header(description=f"{ARROW} (also for */*) or {NDJSON}")]
IfNoneMatch = Annotated[str | None, Header(description="the ETag of an earlier answer")]

_MISSING: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "There is no such dataset."}}


@router.get("", summary="List datasets")
def list_datasets(views: Reading) -> Response:
    """`{"datasets": [...]}` in order of digest: query, position, rows, groups, and the runs refused, by reason."""
    return reply({"datasets": list(views.find(CHECKPOINTS, "dataset/").values())})


@router.get("/{digest}", summary="One dataset", responses={**_MISSING})
def one_dataset(views: Reading, digest: Digest) -> Response:
    """`{"dataset": ...}` as it was frozen."""
    return reply({"dataset": find(views, digest)})


@router.get(
    "/{digest}/rows",
    summary="The rows of a dataset",
    responses={
        **_MISSING,
        200: {"description": "The rows.", "content": {media: {} for media in OFFERED}},
        304: {"description": "They are the ones of If-None-Match."},
        406: {"model": Problem, "description": "Neither Arrow nor NDJSON is accepted."},
        410: {"model": Problem, "description": "The rows need bytes whose subject was erased."},
    },
)
def rows(
    house: HouseOf, views: Reading, digest: Digest, accept: Accept = None, if_none_match: IfNoneMatch = None
) -> Response:
    """An Arrow IPC stream or NDJSON, recomputed from the log and verified. The ETag is the digest.

    Once any subject was erased, rows that a caller knows are made again too: what is erased is not confirmed.
    """
    media = preferred(accept, OFFERED)
    if media is None:
        raise NotAcceptable(actual=accept, offered=", ".join(OFFERED))
    headers = {"ETag": f'"{digest}"', "Vary": "Accept"}
    find(views, digest)
    if _is_known(if_none_match, headers["ETag"]) and not erasures(house.views()):
        return Response(status_code=304, headers=headers)
    frame = load(house.store, house.blobs, house.views, digest, as_of=views.upto).rows
    if _is_known(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    body = _encoded(frame, media)
    return StreamingResponse(_chunks(body), media_type=media, headers={**headers, "Content-Length": str(len(body))})


def _is_known(if_none_match: str | None, tag: str) -> bool:
    tags = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return tag in tags or "*" in tags


def _encoded(frame: pl.DataFrame, media: str) -> memoryview:
    body = BytesIO()
    if media == ARROW:
        frame.write_ipc_stream(body, compat_level=pl.CompatLevel.oldest())
    else:
        frame.write_ndjson(body)
    return body.getbuffer()


def _chunks(body: memoryview) -> Iterator[memoryview]:
    return (body[start : start + _CHUNK] for start in range(0, len(body), _CHUNK))
