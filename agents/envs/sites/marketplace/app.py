"""Harbourline as two apps: its pages under /i/<instance>/, and its admin surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from .. import visits
from ..admin import admin_app
from ..conditions import CLEAR, Conditions
from ..instances import Instances
from ..requests import read_form
from ..site import Apps, SiteKind
from ..visits import READING, PageVisit, page_response, redirect_to
from .catalog import Boat
from .drift import Place
from .further_app import FurtherVisit
from .further_pages import dealer_part
from .further_tasks import FURTHER_TASKS
from .instance import Harbour
from .layout import Addresses
from .leads import read_lead
from .pages import TEXTS, boat_page, home_page, text_page, thanks_page
from .results_page import results_page
from .search import find_results, read_query
from .tasks import TASKS

NAME: Final = "marketplace"
ALL_TASKS: Final = (*TASKS, *FURTHER_TASKS)


def build_site(page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
    """Build the site for the address of its pages and an admin token."""
    instances = Instances(Harbour, conditions=conditions)
    admin = admin_app(site=NAME, tasks=ALL_TASKS, instances=instances, page_base=page_base, token=token)
    return Apps(pages=page_app(instances), admin=admin)


MARKETPLACE: Final = SiteKind(NAME, ALL_TASKS, build_site, Harbour.restore)


def page_app(instances: Instances[Harbour]) -> Starlette:
    """Build the pages of a site's instances."""

    async def answer(harbour: Harbour, prefix: str, request: Request) -> Response:
        harbour.tick()
        return await _Visit(harbour, Addresses(prefix, harbour.family), request).response()

    return visits.instance_app(instances, answer)


class _Visit(PageVisit[Harbour, Addresses]):
    async def response(self) -> Response:
        path = "/" + str(self._request.path_params.get("path", ""))
        text = path.strip("/")
        if text == "":
            return self._read(lambda: home_page(self._addresses, self._state.catalogue))
        if text in TEXTS:
            return self._read(lambda: text_page(self._addresses, text))
        found = self._state.family.locate(path)
        if found is None:
            further = await FurtherVisit(self._state, self._addresses, self._request).response(text)
            return further or self._missing_page()
        place, key = found
        if place == "search":
            return self._search()
        boat = self._state.catalogue.by_slug.get(key) or self._state.catalogue.by_id.get(key)
        return self._missing_page() if boat is None else await self._boat(place, boat)

    async def _boat(self, place: Place, boat: Boat) -> Response:
        if place == "lead":
            return await self._lead(boat)
        if place == "phone":
            return self._phone(boat)
        if place == "thanks":
            return self._read(lambda: thanks_page(self._addresses, boat))
        return self._read(lambda: self._boat_page(boat))

    def _boat_page(self, boat: Boat, errors: tuple[str, ...] = (), said: Mapping[str, str] | None = None) -> str:
        return boat_page(
            self._addresses,
            boat,
            revealed=self._state.is_revealed(boat),
            errors=errors,
            said=said,
            offered=dealer_part(self._addresses, self._state, boat),
        )

    def _search(self) -> Response:
        if self._request.method not in READING:
            return self._wrong_method("GET")
        query = read_query(self._request.query_params)
        results = find_results(self._state.catalogue, query)
        return page_response(results_page(self._addresses, query, results), 422 if query.errors else 200)

    async def _lead(self, boat: Boat) -> Response:
        if self._request.method != "POST":
            return self._wrong_method("POST")
        try:
            fields = await read_form(self._request)
        except ValueError:
            return self._too_much_text()
        lead = read_lead(fields)
        if lead.errors:
            return page_response(self._boat_page(boat, lead.errors, fields), 422)
        self._state.submit_lead(boat, name=lead.name, email=lead.email, message=lead.message)
        return self._move("thanks", boat)

    def _phone(self, boat: Boat) -> Response:
        if self._request.method != "POST":
            return self._wrong_method("POST")
        self._state.reveal_phone(boat)
        return self._move("detail", boat)

    def _move(self, place: Place, boat: Boat) -> Response:
        return redirect_to(self._addresses.of(place, boat))
