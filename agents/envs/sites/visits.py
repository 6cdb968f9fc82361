"""Agents' requests to instances' pages: the instance is found, the request delayed or refused, then answered."""

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
    """Build the app of a site's pages; `answer` gets an instance, its prefix (`/i/<instance>`) and the request."""

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
        # A request that waited during a reset is answered from the state that it arrived at.
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
    """Response with a page; `allowed` lists the allowed methods after a request with another one."""
    return HTMLResponse(page, status, HEADERS if allowed is None else {**HEADERS, "Allow": allowed})


def redirect_to(address: str) -> Response:
    """Redirect to the page that a form leads to."""
    return RedirectResponse(address, 303, HEADERS)


def _nothing_here(_request: Request) -> Response:
    return PlainTextResponse("There is nothing at this address.\n", 404, HEADERS)
