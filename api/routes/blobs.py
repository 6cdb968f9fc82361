"""Blobs: the bytes that events name. Put one, then append the event that names its address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from eventlog.blobs import Blob

from ..queries.blobs import BlobPage, list_blobs
from ..queries.health import BlobAnswer
from .access import Caller
from .as_of import LIMIT, HouseOf, Limit, reply
from .bodies import hold_body
from .errors import BlobTooLarge
from .problems import CUT, SLOW, problem_of
from .schemas import answer_of

router = APIRouter(prefix="/blobs", tags=["blobs"])

MOST_BYTES = 32 * 2**20
"""The largest blob accepted over HTTP."""

UNTYPED = "application/octet-stream"

Address = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="what putting it answered")]
MediaType = Annotated[
    str, Header(alias="Content-Type", min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$", include_in_schema=False)
]
After = Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$", description="blobs whose address sorts after this")]
Subject = Annotated[
    str | None,
    Header(
        alias="X-Blob-Subject",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="the pseudonym of the person the bytes are about: they are kept under that subject's key, can be"
        " erased with it, and are shared with no other subject's",
    ),
]


async def _blob_body(request: Request, house: HouseOf, token: Caller) -> AsyncIterator[bytes]:
    """The body, which keeps its place until it is stored, because a slow store would let bodies pile up in memory."""
    async with hold_body(request, house, token, MOST_BYTES, BlobTooLarge) as body:
        yield body


Body = Annotated[bytes, Depends(_blob_body, scope="function")]


@router.post(
    "",
    status_code=201,
    summary="Keep bytes",
    openapi_extra={"requestBody": {"required": True, "content": {"*/*": {"schema": {"type": "string"}}}}},
    responses={
        201: answer_of(BlobAnswer, "They are kept, now or since before: their address."),
        400: CUT,
        403: problem_of("The token's role may not put blobs."),
        408: SLOW,
        410: problem_of("The subject was erased."),
        413: problem_of(f"More than {MOST_BYTES} bytes."),
        429: problem_of("Too many bodies are being received; try again."),
    },
)
def put_blob(house: HouseOf, body: Body, media_type: MediaType = UNTYPED, subject: Subject = None) -> Response:
    """`{"address": ...}`: the SHA-256 of the body, or for a subject's bytes an HMAC. Its Content-Type is kept."""
    (address,) = house.blobs.put([Blob(media_type, body)], subject=subject)
    return reply(BlobAnswer(address), status=201)


@router.get(
    "",
    summary="List blobs",
    responses={200: answer_of(BlobPage), 403: problem_of("The token's role may not list blobs.")},
)
def list_all_blobs(house: HouseOf, limit: Limit = LIMIT, after: After = None) -> Response:
    """`{"blobs": [...], "next": address}` in order of address, as they are stored now: types and sizes, no bytes.

    Whoever knows an address may read the bytes, those of sealed runs too, so the list of all is for `admin` alone.
    """
    return reply(list_blobs(house.blobs, after=after, limit=limit))


@router.get(
    "/{address}",
    summary="The bytes of an address",
    response_class=Response,
    responses={
        200: {"description": "The bytes, with the media type they were put with.", "content": {"*/*": {}}},
        404: problem_of("There is no such blob."),
        410: problem_of("It was erased with its subject."),
    },
)
def get_blob(house: HouseOf, address: Address) -> Response:
    """The bytes, checked against the address. Headers keep browsers from running and caches from storing them."""
    blob = house.blobs.get(address)
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(blob.body, headers={**headers, "Content-Type": blob.media_type})
