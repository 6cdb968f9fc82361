"""Back-pressure: beyond a bound of appends in flight the next is answered 429 at once, before it takes a thread."""

from __future__ import annotations

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from eventlog.errors import LogBusy

from ..house import House
from .problems import refusal

APPENDS = ("POST", "/v1/events")
THREADS = 64
"""Appends that may wait in the store at once: what group commit can merge."""

_LIMITER = "appending"


def append_limiter(request: Request) -> CapacityLimiter:
    """The threads of the application that appends wait on; no other request needs one of them."""
    state = request.app.state
    if not hasattr(state, _LIMITER):
        setattr(state, _LIMITER, CapacityLimiter(THREADS))
    limiter: CapacityLimiter = getattr(state, _LIMITER)
    return limiter


class Admission:
    """Middleware that counts the appends in flight; as many as the settings say are let in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; all but appends are passed on."""
        if scope["type"] != "http" or (scope["method"], scope["path"].rstrip("/")) != APPENDS:
            await self._app(scope, receive, send)
            return
        house: House = scope["app"].state.house
        if self._inside >= house.settings.append_queue:
            house.store.group.refuse()
            busy = LogBusy(actual=self._inside, expected=house.settings.append_queue)
            await refusal(busy)(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1
