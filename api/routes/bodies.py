"""Bodies of requests: so many at once, read up to a bound and within a time, so that senders hold little memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CancelScope, current_time
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from eventlog.errors import FlywheelError
from projections.access import TokenState

from ..house import House
from .admission import ByteLease, lease_bytes, places_of
from .errors import BodyCut, BodyTooSlow

BYTES_PER_SECOND = 256 * 1024
"""A body gets one more second for so many bytes that have arrived."""

_OWN_BOUND = "has_own_body_bound"


def has_own_bound(scope: Scope) -> bool:
    """True if a route bounds the body of this request itself."""
    return bool(scope.get("state", {}).get(_OWN_BOUND))


@asynccontextmanager
async def hold_body(
    request: Request,
    house: House,
    token: TokenState,
    at_most: int,
    too_large: type[FlywheelError],
    lease: ByteLease | None = None,
) -> AsyncIterator[bytes]:
    """A request body by the holder of a token, of at most `at_most` bytes. It keeps a place until the block ends.

    Its bytes count among those of all callers until the block ends, or with a `lease` until that is released.
    Reading stops as soon as the body is too large or late. Raises TooManyBodies, TooManyBytes, `too_large`,
    BodyTooSlow, BodyCut.
    """
    setattr(request.state, _OWN_BOUND, True)
    announced = request.headers.get("Content-Length", "")
    if announced.isdecimal() and int(announced) > at_most:
        raise too_large(actual=f"{announced} bytes", expected=at_most)
    own = lease_bytes(request.app, house)
    try:
        with places_of(request.app).take_body(house, token.token):
            yield await _receive(request, at_most, house.settings.body_seconds, too_large, lease or own)
    finally:
        own.release()


async def _receive(
    request: Request, at_most: int, seconds: int, too_large: type[FlywheelError], lease: ByteLease
) -> bytes:
    """The body; its first bytes get `seconds` to arrive."""
    body = bytearray()
    with CancelScope(deadline=current_time() + seconds) as waiting:
        try:
            async for part in request.stream():
                body += part
                if len(body) > at_most:
                    raise too_large(actual=f"more than {at_most} bytes", expected=at_most)
                lease.add(len(part))
                waiting.deadline += len(part) / BYTES_PER_SECOND
        except ClientDisconnect as gone:
            raise BodyCut(actual=len(body)) from gone
    if waiting.cancelled_caught:
        raise BodyTooSlow(actual=len(body), expected=seconds, rate=BYTES_PER_SECOND)
    return bytes(body)
