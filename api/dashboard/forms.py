"""Bounds the bodies of forms before anybody reads them: signing in needs no token yet."""

from __future__ import annotations

from fastapi.responses import PlainTextResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 64 * 1024
"""The largest form: the names of some hundred runs."""


class SmallForms:
    """Middleware that refuses a body that is larger than a form, or that does not say how large it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 411 or 413."""
        if scope["type"] == "http" and scope["method"] not in {"GET", "HEAD"}:
            announced = Headers(scope=scope).get("Content-Length", "")
            if not announced.isdecimal():
                await PlainTextResponse("A form must say how long it is.", status_code=411)(scope, receive, send)
                return
            if int(announced) > MOST_BYTES:
                refused = f"A form has at most {MOST_BYTES} bytes."
                await PlainTextResponse(refused, status_code=413)(scope, receive, send)
                return
        await self._app(scope, receive, send)
