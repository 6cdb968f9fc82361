"""Agents' requests to instances' pages: the instance is found, the request delayed or refused, then answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from .addresses import InstanceAddresses
from .conditions import RETRY_AFTER_S
from .instances import Instances
from .markup import render_page
from .site import Simulation

S = TypeVar("S", bound=Simulation)
A = TypeVar("A", bound=InstanceAddresses)
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


class PageVisit(Generic[S, A]):
    """One request to the pages of one instance."""

    def __init__(self, state: S, addresses: A, request: Request) -> None:
        self._state = state
        self._addresses = addresses
        self._request = request

    def _read(self, show: Callable[[], str]) -> Response:
        return page_response(show()) if self._request.method in READING else self._wrong_method("GET")

    def _missing_page(self) -> Response:
        return page_response(render_page("missing.html", self._addresses), 404)

    def _wrong_method(self, allowed: str) -> Response:
        words = "This address is not opened in that way. Please go back and use the page."
        return self._refused_page(words, 405, allowed=allowed)

    def _too_much_text(self) -> Response:
        return self._refused_page("That was too much text. Please send less.", 413)

    def _refused_page(self, words: str, status: int, *, allowed: str | None = None) -> Response:
        return page_response(render_page("refused.html", self._addresses, words=words), status, allowed=allowed)


def _nothing_here(_request: Request) -> Response:
    return PlainTextResponse("There is nothing at this address.\n", 404, HEADERS)
