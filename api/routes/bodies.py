"""Bodies of requests: read up to a bound and within a time, so that no sender holds memory or a place for long."""

from __future__ import annotations

from anyio import CancelScope, current_time
from fastapi import Request
from starlette.requests import ClientDisconnect

from eventlog.errors import FlywheelError

from .errors import BodyCut, BodyTooSlow

BYTES_PER_SECOND = 256 * 1024
"""A body gets one more second for so many bytes that have arrived."""


async def read_body(request: Request, at_most: int, seconds: int, too_large: type[FlywheelError]) -> bytes:
    """The body of a request, of at most `at_most` bytes, the first of which get `seconds` to arrive.

    Reading stops as soon as the body is too large or late. Raises `too_large`, BodyTooSlow, BodyCut.
    """
    announced = request.headers.get("Content-Length", "")
    if announced.isdecimal() and int(announced) > at_most:
        raise too_large(actual=f"{announced} bytes", expected=at_most)
    body = bytearray()
    with CancelScope(deadline=current_time() + seconds) as waiting:
        try:
            async for part in request.stream():
                body += part
                if len(body) > at_most:
                    raise too_large(actual=f"more than {at_most} bytes", expected=at_most)
                waiting.deadline += len(part) / BYTES_PER_SECOND
        except ClientDisconnect as gone:
            raise BodyCut(actual=len(body)) from gone
    if waiting.cancelled_caught:
        raise BodyTooSlow(actual=len(body), expected=seconds, rate=BYTES_PER_SECOND)
    return bytes(body)
