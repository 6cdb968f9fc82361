"""Requests to dealers' offers and to the prize draw."""

from __future__ import annotations

from starlette.responses import Response

from ..requests import read_form
from ..visits import READING, PageVisit, page_response, redirect_to
from .catalog import Boat
from .further_pages import (
    draw_page,
    email_fault,
    interruption_page,
    paper_page,
    papers_page,
    watch_page,
    watching_page,
)
from .further_tasks import AGAIN, INTERRUPTION
from .instance import Harbour, is_gated
from .layout import Addresses
from .papers import has_papers, papers_of

AGAIN_WORDS = "That took too long, and nothing was set. Please send it again."


class FurtherVisit(PageVisit[Harbour, Addresses]):
    """One request to one instance."""

    async def response(self, path: str) -> Response | None:
        """Answer to the request; None if its address is unknown here."""
        match path.split("/"):
            case ["draw"]:
                return await self._draw()
            case [kind, number, *parts] if number in self._state.catalogue.by_id:
                boat = self._state.catalogue.by_id[number]
                return await self._offer_page(kind, boat, parts) if has_papers(boat) else None
        return None

    async def _offer_page(self, kind: str, boat: Boat, parts: list[str]) -> Response | None:
        match kind, parts:
            case "papers", []:
                papers = papers_of(self._state.seed, boat)
                return self._read(lambda: papers_page(self._addresses, boat, papers))
            case "papers", [key, *entry] if len(entry) <= 1:
                return self._paper(boat, key, *entry)
            case "contact", [] if is_gated(boat):
                return self._contact(boat)
            case "watch", []:
                return await self._watch(boat)
            case "watch", ["set"]:
                return self._read(lambda: watching_page(self._addresses, boat))
        return None

    def _paper(self, boat: Boat, key: str, entry_key: str | None = None) -> Response | None:
        paper = papers_of(self._state.seed, boat).by_key.get(key)
        if paper is None:
            return None
        if entry_key is None:
            saved = paper.entry(self._request.query_params.get("saved", ""))
            return self._read(lambda: paper_page(self._addresses, boat, paper, saved=saved))
        entry = paper.entry(entry_key)
        if entry is None:
            return None
        if self._request.method != "POST":
            return self._wrong_method("POST")
        self._state.save_entry(boat, paper, entry)
        return redirect_to(f"{self._addresses.offer_address('papers', boat, key)}?saved={entry.key}")

    def _contact(self, boat: Boat) -> Response:
        if self._request.method != "POST":
            return self._wrong_method("POST")
        self._state.start_contact(boat)
        return redirect_to(self._addresses.of("detail", boat))

    async def _watch(self, boat: Boat) -> Response:
        if self._request.method in READING:
            if self._state.troubles.meet(INTERRUPTION):
                return page_response(interruption_page(self._addresses, boat))
            return page_response(watch_page(self._addresses, boat))
        email = await self._email()
        error = email_fault(email)
        if error is not None:
            return page_response(watch_page(self._addresses, boat, said=email, error=error), 422)
        if self._state.troubles.meet(AGAIN):
            return page_response(watch_page(self._addresses, boat, said=email, error=AGAIN_WORDS))
        self._state.watch(boat, email)
        return redirect_to(self._addresses.offer_address("watch", boat, "set"))

    async def _draw(self) -> Response:
        if self._request.method in READING:
            return page_response(draw_page(self._addresses, self._state.is_drawn))
        email = await self._email()
        error = email_fault(email)
        if error is not None:
            return page_response(draw_page(self._addresses, self._state.is_drawn, said=email, error=error), 422)
        self._state.enter_draw(email)
        return redirect_to(self._addresses.text("draw"))

    async def _email(self) -> str:
        try:
            return (await read_form(self._request)).get("reply_to", "").strip()
        except ValueError:
            return ""  # a body that is not a form, or too large, holds no address
