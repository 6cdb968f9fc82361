"""Rows of datasets and slices on the wire: Arrow, Parquet or NDJSON, whole or in part, known by their digest."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from io import BytesIO
from typing import Annotated, Any, BinaryIO, Final, Literal

import polars as pl
from anyio import CancelScope
from fastapi import Depends, Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from projections.taint import erasures

from ..datasets.kept_files import keep_file, kept_file, kept_name, kept_rows
from ..house import House
from .errors import BeyondRows, NotAcceptable
from .negotiation import preferred_type
from .problems import problem_of
from .ranges import wanted_range

ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
NDJSON = "application/x-ndjson"
OFFERED = (ARROW, PARQUET, NDJSON)

ERASED = problem_of("The rows need bytes whose subject was erased.")
ROWS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The rows.", "content": {media: {} for media in OFFERED}},
    206: {"description": "The bytes of Range.", "content": {media: {} for media in OFFERED}},
    304: {"description": "They are the ones of If-None-Match."},
    406: problem_of("Neither Arrow nor Parquet nor NDJSON is accepted."),
    410: ERASED,
    416: problem_of("The rows have fewer bytes than Range begins at; Content-Range says how many."),
}
"""Answers of a route that sends rows, beside a missing name."""

_CHUNK: Final = 1 << 20
_ROW_GROUP: Final = 8_192
_LZ4: Final = re.compile(r"vnd\.apache\.arrow\.stream\s*;\s*codec\s*=\s*\"?lz4", re.IGNORECASE)
_SUFFIX: Final = {ARROW: "arrow", PARQUET: "parquet", NDJSON: "ndjson"}

Accept = Annotated[
    str | None, Header(description=f"{ARROW} (also for */*; with `;codec=lz4` compressed), {PARQUET} or {NDJSON}")
]
IfNoneMatch = Annotated[str | None, Header(description="the ETag of an earlier answer")]
IfRange = Annotated[str | None, Header(description="the ETag of the answer that the range is of")]


class RowsWanted:
    """What the headers of a request say of the rows that it wants."""

    def __init__(
        self,
        request: Request,
        accept: Accept = None,
        if_none_match: IfNoneMatch = None,
        wanted: Annotated[str | None, Header(alias="Range", description="one range of bytes")] = None,
        if_range: IfRange = None,
    ) -> None:
        self.accept = accept if accept is None else ", ".join(request.headers.getlist("accept"))
        self.if_none_match, self.range, self.if_range = if_none_match, wanted, if_range

    @property
    def form(self) -> tuple[str, str]:
        """The media type that is preferred, and the ending of its files. Raises NotAcceptable."""
        media = preferred_type(self.accept, OFFERED)
        if media is None:
            raise NotAcceptable(actual=self.accept, offered=", ".join(OFFERED))
        is_lz4 = media == ARROW and _LZ4.search(self.accept or "") is not None
        return media, "lz4.arrow" if is_lz4 else _SUFFIX[media]

    def knows(self, digest: str, tag: str) -> bool:
        """True if the caller has the rows of this ETag, or names their digest."""
        tags = {part.strip().removeprefix("W/") for part in (self.if_none_match or "").split(",")}
        return not tags.isdisjoint({tag, f'"{digest}"', "*"})


Wanting = Annotated[RowsWanted, Depends(RowsWanted)]


def send_rows(house: House, digest: str, frame_of: Callable[[], pl.DataFrame], wanted: RowsWanted) -> Response:
    """The rows of a digest as the caller accepts them. Raises NotAcceptable, BeyondRows.

    They are taken from a kept file, or encoded from one of another encoding, or built from the log, and kept. Once any
    subject was erased, rows that a caller knows and that are not kept are made again too: what is erased is not
    confirmed.
    """
    media, suffix = wanted.form
    headers = {
        "ETag": f'"{digest}.{suffix}.polars-{pl.__version__}"',
        "Vary": "Accept",
        "Accept-Ranges": "bytes",
        "Content-Type": media,
    }
    views = house.views()
    name = kept_name(views, digest, suffix)
    kept = kept_file(house, name)
    if wanted.knows(digest, headers["ETag"]) and (kept is not None or not erasures(views)):
        if kept is not None:
            kept.close()
        return Response(status_code=304, headers=headers)
    if kept is not None:
        return send_kept_file(kept, headers, wanted)
    found = kept_rows(house, views, digest)
    frame = frame_of() if found is None else found
    body = encode_rows(frame, suffix)
    now = house.views()
    if kept_name(now, digest, suffix) == name:  # else a subject was erased while the rows were built
        keep_file(house, now, name, frame, body)
    if wanted.knows(digest, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    status, headers, part = _answer_head(len(body), headers, wanted)
    return StreamingResponse(_cut(body, part), status_code=status, headers=headers)


class _FileResponse(StreamingResponse):
    """Bytes of an open file, which is closed also if the client leaves before the end."""

    def __init__(self, file: BinaryIO, part: range, status: int, headers: dict[str, str]) -> None:
        super().__init__(_read(file, part), status_code=status, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def send_kept_file(file: BinaryIO, headers: dict[str, str], wanted: RowsWanted) -> Response:
    """The bytes of an open file that are wanted; the file is closed with the answer. Raises BeyondRows."""
    try:
        status, headers, part = _answer_head(os.fstat(file.fileno()).st_size, headers, wanted)
    except BaseException:
        file.close()
        raise
    return _FileResponse(file, part, status, headers)


def _answer_head(size: int, headers: dict[str, str], wanted: RowsWanted) -> tuple[int, dict[str, str], range]:
    """The status and headers of an answer, and the part of so many bytes that it has. Raises BeyondRows."""
    part = wanted_range(wanted.range, wanted.if_range, headers["ETag"], size)
    if part is None:
        status, part = 200, range(size)
    elif not part:
        raise BeyondRows(actual=wanted.range, expected=size)
    else:
        status = 206
        headers = {**headers, "Content-Range": f"bytes {part.start}-{part.stop - 1}/{size}"}
    return status, {**headers, "Content-Length": str(len(part))}, part


def _cut(body: memoryview, part: range) -> Iterator[memoryview]:
    return (body[start : min(start + _CHUNK, part.stop)] for start in range(part.start, part.stop, _CHUNK))


async def _read(file: BinaryIO, part: range) -> AsyncIterator[bytes]:
    """The bytes of an open file, which stays readable also if it is removed meanwhile.

    A thread reads the next piece while one is sent.
    """
    file.seek(part.start)
    sizes = (min(_CHUNK, part.stop - start) for start in range(part.start, part.stop, _CHUNK))
    following = _ahead(file, sizes)
    try:
        while following is not None:
            piece = await following
            following = _ahead(file, sizes)
            yield piece
    finally:
        with CancelScope(shield=True):
            await asyncio.gather(*filter(None, [following]), return_exceptions=True)  # before the file is closed


def _ahead(file: BinaryIO, sizes: Iterator[int]) -> asyncio.Future[bytes] | None:
    size = next(sizes, None)
    return None if size is None else asyncio.get_running_loop().run_in_executor(None, file.read, size)


def encode_rows(frame: pl.DataFrame, suffix: str) -> memoryview:
    """The rows in the form of an ending: `arrow`, `lz4.arrow`, `parquet` or `ndjson`."""
    body = BytesIO()
    if suffix == "parquet":
        frame.write_parquet(body, row_group_size=_ROW_GROUP)
    elif suffix == "ndjson":
        frame.write_ndjson(body)
    else:
        compression: Literal["lz4", "uncompressed"] = "lz4" if suffix == "lz4.arrow" else "uncompressed"
        frame.write_ipc_stream(body, compression=compression, compat_level=pl.CompatLevel.oldest())
    return body.getbuffer()
