"""Reading request bodies, up to a size limit."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

LARGEST_BODY: Final = 64 * 1024
MOST_FIELDS: Final = 50


class BodyTooLarge(ValueError):
    """The body is larger than a site reads."""


async def body_of(request: Request) -> bytes:
    """Read a request's body. Raises BodyTooLarge beyond 64 KiB."""
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > LARGEST_BODY:
            raise BodyTooLarge
    return bytes(read)


async def fields_of(request: Request) -> list[tuple[str, str]]:
    """Read the fields of a URL-encoded form. Raises ValueError if the body is not a form or too large."""
    text = (await body_of(request)).decode("utf-8", errors="replace")
    return parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)


async def read_form(request: Request) -> dict[str, str]:
    """Read a URL-encoded form; the last of repeated fields wins. Raises ValueError if it is not a form or too large."""
    return dict(await fields_of(request))
