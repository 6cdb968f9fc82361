"""Bounds the bodies that the framework reads by itself. A route with larger ones bounds them with `hold_body`."""

from __future__ import annotations

from anyio import CancelScope, current_time
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlog.errors import FlywheelError

from .bodies import BYTES_PER_SECOND, has_own_bound
from .errors import BodyTooLarge, BodyTooSlow
from .problems import problem_of, refusal

MOST_BYTES = 64 * 1024
"""The largest body of a route that takes a few fields."""

_GONE: Message = {"type": "http.disconnect"}

TOO_LARGE = problem_of(f"More than {MOST_BYTES} bytes.")


class SmallBodies:
    """Middleware that ends the reading of a body which is too large or late, and answers 413 or 408."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with its body up to the bound."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bounded = _BoundedBody(scope, receive)

        async def send_unless_refused(message: Message) -> None:
            if bounded.refused is None:
                await send(message)

        await self._app(scope, bounded.receive, send_unless_refused)
        if bounded.refused is not None:
            await refusal(bounded.refused)(scope, receive, send)


class _BoundedBody:
    """The body of one request. Once it is `refused`, its reader is told that the connection has ended."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.refused: FlywheelError | None = None
        self._scope, self._receive = scope, receive
        self._bytes, self._is_whole = 0, False
        self._began: float | None = None
        announced = Headers(scope=scope).get("Content-Length", "")
        self._announced = int(announced) if announced.isdecimal() else 0

    async def receive(self) -> Message:
        """The next message of the request."""
        if self._is_whole or has_own_bound(self._scope):
            return await self._receive()
        if self.refused is None and self._announced > MOST_BYTES:
            self.refused = BodyTooLarge(actual=f"{self._announced} bytes", expected=MOST_BYTES)
        if self.refused is not None:
            return _GONE
        message = await self._receive_in_time()
        self._bytes += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self._bytes > MOST_BYTES:
            self.refused = BodyTooLarge(actual=f"more than {MOST_BYTES} bytes", expected=MOST_BYTES)
        return message if self.refused is None else _GONE

    async def _receive_in_time(self) -> Message:
        self._began = current_time() if self._began is None else self._began
        seconds: int = self._scope["app"].state.house.settings.body_seconds
        with CancelScope(deadline=self._began + seconds + self._bytes / BYTES_PER_SECOND):
            return await self._receive()
        self.refused = BodyTooSlow(actual=self._bytes, expected=seconds, rate=BYTES_PER_SECOND)
        return _GONE
