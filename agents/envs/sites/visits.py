"""Agents' requests to instances' pages: found, made to wait or refused as the conditions say, then answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from .conditions import RETRY_AFTER_S
from .instances import Instances
from .site import Simulation

S = TypeVar("S", bound=Simulation)
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
READING: Final = frozenset({"GET", "HEAD"})
BUSY: Final = "This site is busy. Please try again in a moment.\n"


def instance_app(instances: Instances[S], answer: Callable[[S, str, Request], Awaitable[Response]]) -> Starlette:
    """Build the pages of a site; `answer` gets an instance, its prefix (`/i/<instance>`) and the request."""

    async def respond(request: Request) -> Response:
        instance = request.path_params["instance"]
        state = instances.find(instance)
        if state is None:
            return _nothing_here(request)
        met = instances.arrival(instance)
        if met.delay_ms:
            await asyncio.sleep(met.delay_ms / 1_000)
        if met.is_refused:
            return PlainTextResponse(BUSY, 503, {**HEADERS, "Retry-After": str(RETRY_AFTER_S)})
        # A request that waited while its instance was reset belongs to what was there when it came.
        return await answer(state, f"/i/{instance}", request)

    async def nothing(request: Request) -> Response:
        return _nothing_here(request)

    methods = ["GET", "POST"]
    return Starlette(
        routes=[
            Route("/i/{instance}", respond, methods=methods),
            Route("/i/{instance}/{path:path}", respond, methods=methods),
            Route("/{path:path}", nothing, methods=methods),
        ]
    )


def page_response(page: str, status: int = 200, *, allowed: str | None = None) -> Response:
    """A page as an answer; `allowed` names the methods of an address that was asked with another one."""
    return HTMLResponse(page, status, HEADERS if allowed is None else {**HEADERS, "Allow": allowed})


def redirect_to(address: str) -> Response:
    """The way to the page that a form leads to."""
    return RedirectResponse(address, 303, HEADERS)


def _nothing_here(_request: Request) -> Response:
    return PlainTextResponse("There is nothing at this address.\n", 404, HEADERS)
