"""Harbourline as two apps: its pages under /i/<instance>/, and its admin surface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from ..admin import admin_app
from ..instances import Instances
from ..requests import form_of
from ..site import Apps, Kind
from .catalog import Boat
from .drift import Place
from .instance import Harbour
from .layout import Addresses
from .leads import read_lead
from .pages import TEXTS, boat_page, home_page, missing_page, refused_page, text_page, thanks_page
from .results_page import results_page
from .search import find, read_query
from .tasks import TASKS

NAME: Final = "marketplace"
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
READING: Final = frozenset({"GET", "HEAD"})


def build(page_base: str, token: str) -> Apps:
    """Build the site for the address of its pages and an admin token."""
    instances = Instances(Harbour)
    admin = admin_app(site=NAME, tasks=TASKS, instances=instances, page_base=page_base, token=token)
    return Apps(pages=page_app(instances), admin=admin)


MARKETPLACE: Final = Kind(NAME, TASKS, build, Harbour.restored)


def page_app(instances: Instances[Harbour]) -> Starlette:
    """Build the pages of a site's instances."""

    async def answer(request: Request) -> Response:
        instance = request.path_params["instance"]
        harbour = instances.find(instance)
        if harbour is None:
            return _nothing_here(request)
        harbour.tick()
        return await _Visit(harbour, Addresses(f"/i/{instance}", harbour.family), request).response()

    async def nothing(request: Request) -> Response:
        return _nothing_here(request)

    methods = ["GET", "POST"]
    return Starlette(
        routes=[
            Route("/i/{instance}", answer, methods=methods),
            Route("/i/{instance}/{path:path}", answer, methods=methods),
            Route("/{path:path}", nothing, methods=methods),
        ]
    )


def _nothing_here(_request: Request) -> Response:
    return PlainTextResponse("There is nothing at this address.\n", 404, HEADERS)


class _Visit:
    """One request to one instance."""

    def __init__(self, harbour: Harbour, addresses: Addresses, request: Request) -> None:
        self._harbour = harbour
        self._addresses = addresses
        self._request = request

    async def response(self) -> Response:
        path = "/" + str(self._request.path_params.get("path", ""))
        text = path.strip("/")
        if text == "":
            return self._read(lambda: home_page(self._addresses, self._harbour.catalogue))
        if text in TEXTS:
            return self._read(lambda: text_page(self._addresses, text))
        found = self._harbour.family.locate(path)
        if found is None:
            return self._missing()
        place, key = found
        if place == "search":
            return self._search()
        boat = self._harbour.catalogue.by_slug.get(key) or self._harbour.catalogue.by_id.get(key)
        return self._missing() if boat is None else await self._boat(place, boat)

    async def _boat(self, place: Place, boat: Boat) -> Response:
        if place == "lead":
            return await self._lead(boat)
        if place == "phone":
            return self._phone(boat)
        if place == "thanks":
            return self._read(lambda: thanks_page(self._addresses, boat))
        revealed = self._harbour.is_revealed(boat)
        return self._read(lambda: boat_page(self._addresses, boat, revealed=revealed))

    def _search(self) -> Response:
        if self._request.method not in READING:
            return self._wrong_method("GET")
        query = read_query(self._request.query_params)
        results = find(self._harbour.catalogue, query)
        return _html(results_page(self._addresses, query, results), 422 if query.errors else 200)

    async def _lead(self, boat: Boat) -> Response:
        if self._request.method != "POST":
            return self._wrong_method("POST")
        try:
            fields = await form_of(self._request)
        except ValueError:
            return _html(refused_page(self._addresses, "That was too much text. Please send less."), 413)
        lead = read_lead(fields)
        if lead.errors:
            revealed = self._harbour.is_revealed(boat)
            shown = boat_page(self._addresses, boat, revealed=revealed, errors=lead.errors, said=fields)
            return _html(shown, 422)
        self._harbour.submit_lead(boat, name=lead.name, email=lead.email, message=lead.message)
        return self._move("thanks", boat)

    def _phone(self, boat: Boat) -> Response:
        if self._request.method != "POST":
            return self._wrong_method("POST")
        self._harbour.reveal_phone(boat)
        return self._move("detail", boat)

    def _read(self, show: Callable[[], str]) -> Response:
        return _html(show(), 200) if self._request.method in READING else self._wrong_method("GET")

    def _move(self, place: Place, boat: Boat) -> Response:
        return RedirectResponse(self._addresses.of(place, boat), 303, HEADERS)

    def _missing(self) -> Response:
        return _html(missing_page(self._addresses), 404)

    def _wrong_method(self, allowed: str) -> Response:
        shown = refused_page(
            self._addresses, "This address is not opened in that way. Please go back and use the page."
        )
        return HTMLResponse(shown, 405, {**HEADERS, "Allow": allowed})


def _html(shown: str, status: int) -> Response:
    return HTMLResponse(shown, status, HEADERS)
