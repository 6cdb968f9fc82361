"""Rows of datasets and slices on the wire: Arrow or NDJSON, known by their digest."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Annotated, Any

import polars as pl
from fastapi import Header, Response
from fastapi.responses import StreamingResponse

from projections.taint import erasures

from ..house import House
from .errors import NotAcceptable
from .negotiation import preferred_type
from .problems import problem_of

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
OFFERED = (ARROW, NDJSON)

ERASED = problem_of("The rows need bytes whose subject was erased.")
ROWS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The rows.", "content": {media: {} for media in OFFERED}},
    304: {"description": "They are the ones of If-None-Match."},
    406: problem_of("Neither Arrow nor NDJSON is accepted."),
    410: ERASED,
}
"""Answers of a route that sends rows, beside a missing name."""

_CHUNK = 1 << 20

Accept = Annotated[str | None, Header(description=f"{ARROW} (also for */*) or {NDJSON}")]
IfNoneMatch = Annotated[str | None, Header(description="the ETag of an earlier answer")]


def send_rows(
    house: House, digest: str, frame_of: Callable[[], pl.DataFrame], accept: str | None, if_none_match: str | None
) -> Response:
    """The rows of a digest as the caller accepts them. Raises NotAcceptable.

    Once any subject was erased, rows that a caller knows are made again too: what is erased is not confirmed.
    """
    media = preferred_type(accept, OFFERED)
    if media is None:
        raise NotAcceptable(actual=accept, offered=", ".join(OFFERED))
    headers = {"ETag": f'"{digest}"', "Vary": "Accept"}
    if _is_known(if_none_match, headers["ETag"]) and not erasures(house.views()):
        return Response(status_code=304, headers=headers)
    frame = frame_of()
    if _is_known(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    body = _encode(frame, media)
    chunks = (body[start : start + _CHUNK] for start in range(0, len(body), _CHUNK))
    return StreamingResponse(chunks, media_type=media, headers={**headers, "Content-Length": str(len(body))})


def _is_known(if_none_match: str | None, tag: str) -> bool:
    tags = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return tag in tags or "*" in tags


def _encode(frame: pl.DataFrame, media: str) -> memoryview:
    body = BytesIO()
    if media == ARROW:
        frame.write_ipc_stream(body, compat_level=pl.CompatLevel.oldest())
    else:
        frame.write_ndjson(body)
    return body.getbuffer()
