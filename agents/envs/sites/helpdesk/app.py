"""Lanternpost as two apps: its pages under /i/<instance>/, and its admin surface."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from .. import visits
from ..admin import admin_app
from ..conditions import CLEAR, Conditions
from ..instances import Instances
from ..requests import fields_of
from ..site import Apps, SiteKind
from ..visits import READING, PageVisit, page_response, redirect_to
from .drift import Place
from .inbox_page import PRIORITY_CODES, TEAM_CODES, inbox_page
from .instance import Desk
from .layout import Addresses
from .mailbox import TICKETS, Ticket
from .pages import SLOTS, callbacks_page, home_page, macros_page, rules_page
from .personal import leaked_kinds
from .replies import DO, read_reply
from .search import find_results, read_query
from .tasks import AGAIN, SLOW, TASKS
from .ticket_page import ANYONE, SAME, SENDERS, TicketExtras, ticket_page

NAME: Final = "helpdesk"
NUMBER: Final = re.compile("[0-9]{1,12}")
MOST_ASSIGNED: Final = frozenset(map(str, range(TICKETS + 1)))
AGAIN_WORDS: Final = "That took too long, and nothing was merged. Please send it again."


def build_site(page_base: str, token: str, conditions: Conditions = CLEAR) -> Apps:
    """Build the site for the address of its pages and an admin token."""
    instances = Instances(Desk, conditions=conditions)
    admin = admin_app(site=NAME, tasks=TASKS, instances=instances, page_base=page_base, token=token)
    return Apps(pages=page_app(instances), admin=admin)


HELPDESK: Final = SiteKind(NAME, TASKS, build_site, Desk.restore)


def page_app(instances: Instances[Desk]) -> Starlette:
    """Build the pages of a site's instances."""

    async def answer(desk: Desk, prefix: str, request: Request) -> Response:
        desk.tick()
        return await _Visit(desk, Addresses(prefix, desk.family), request).response()

    return visits.instance_app(instances, answer)


class _Visit(PageVisit[Desk, Addresses]):
    async def response(self) -> Response:
        path = "/" + str(self._request.path_params.get("path", ""))
        texts: dict[str, Callable[[], str]] = {
            "": lambda: home_page(self._addresses, self._state),
            "macros": lambda: macros_page(self._addresses),
            "rules": lambda: rules_page(self._addresses),
        }
        name = path.strip("/")
        if name in texts:
            return self._read(texts[name])
        if name == "callbacks":
            return await self._callbacks()
        found = self._state.family.locate(path)
        return self._missing_page() if found is None else await self._place(*found)

    async def _place(self, place: Place, number: int) -> Response:
        if place == "inbox":
            return self._inbox()
        if place == "assign":
            return await self._post(self._assign)
        ticket = self._state.ticket(number)
        if ticket is None:
            return self._missing_page()
        if place == "ticket":
            return self._read(lambda: self._ask_form(ticket))
        act = self._reply if place == "reply" else self._merge
        return await self._post(lambda fields: act(ticket, fields))

    def _inbox(self, errors: tuple[str, ...] = ()) -> Response:
        if self._request.method not in READING and not errors:
            return self._wrong_method("GET")
        parameters = self._request.query_params
        query = read_query(parameters)
        assigned = parameters.get("done", "")
        page = inbox_page(
            self._addresses,
            self._state,
            query,
            find_results(self._state, query),
            assigned=int(assigned) if assigned in MOST_ASSIGNED else None,
            errors=errors,
        )
        return page_response(page, 422 if query.errors or errors else 200)

    def _assign(self, fields: list[tuple[str, str]]) -> Response:
        said = dict(fields)
        numbers, team, priority = _numbers(fields), TEAM_CODES.get(said.get("tm", "")), said.get("pr", "")
        errors = [] if team is not None else ["Please choose a team."]
        errors += [] if numbers and all(map(self._state.ticket, numbers)) else ["Please check at least one ticket."]
        errors += [] if priority in {"", *PRIORITY_CODES} else ["We do not know that priority."]
        if team is None or errors:
            return self._inbox(tuple(errors))
        changed = self._state.assign(numbers, team, PRIORITY_CODES.get(priority))
        return redirect_to(f"{self._addresses.of('inbox')}?done={changed}")

    def _ask_form(self, ticket: Ticket) -> str:
        sender = self._request.query_params.get("by", "")
        if sender not in SENDERS:
            return self._ticket(ticket, TicketExtras())
        if sender == SAME and self._state.troubles.meet(SLOW):
            return self._ticket(ticket, TicketExtras(sender=sender, is_slow=True))
        similar = self._state.similar(ticket, same_customer=sender == SAME)
        return self._ticket(ticket, TicketExtras(sender=sender, similar=similar))

    def _reply(self, ticket: Ticket, fields: list[tuple[str, str]]) -> Response:
        said = dict(fields)
        reply = read_reply(said)
        if reply.errors:
            return page_response(self._ticket(ticket, TicketExtras(draft=reply)), 422)
        text = reply.text(ticket, self._state.customer(ticket))
        if said.get(DO) != "send":
            found = leaked_kinds(text, self._state.mailbox.customers)
            return page_response(self._ticket(ticket, TicketExtras(draft=reply, found=found)))
        self._state.send(ticket, reply, text)
        return redirect_to(self._addresses.of("ticket", ticket))

    def _merge(self, ticket: Ticket, fields: list[tuple[str, str]]) -> Response:
        numbers = _numbers(fields)
        others = [self._state.ticket(number) for number in numbers]
        if not others or ticket.merged_into is not None or any(each is None or each == ticket for each in others):
            errors = ("Please check other tickets, and merge them into one that is not merged itself.",)
            return page_response(self._ticket(ticket, TicketExtras(errors=errors)), 422)
        if self._state.troubles.meet(AGAIN):
            kept = tuple(each for each in others if each is not None)
            same = ANYONE if any(each.customer != ticket.customer for each in kept) else SAME
            return page_response(self._ticket(ticket, TicketExtras(errors=(AGAIN_WORDS,), sender=same, similar=kept)))
        self._state.merge(numbers, ticket)
        return redirect_to(self._addresses.of("ticket", ticket))

    async def _callbacks(self) -> Response:
        if self._request.method in READING:
            return page_response(callbacks_page(self._addresses, self._state.is_granted))
        return await self._post(self._ask)

    def _ask(self, fields: list[tuple[str, str]]) -> Response:
        slot = SLOTS.get(dict(fields).get("slo", ""))
        if slot is None:
            return page_response(
                callbacks_page(self._addresses, self._state.is_granted, error="Please choose a slot."), 422
            )
        self._state.ask_callback(slot)
        return redirect_to(self._addresses.text("callbacks"))

    def _ticket(self, ticket: Ticket, extra: TicketExtras) -> str:
        return ticket_page(self._addresses, self._state, ticket, extra)

    async def _post(self, act: Callable[[list[tuple[str, str]]], Response]) -> Response:
        if self._request.method != "POST":
            return self._wrong_method("POST")
        try:
            fields = await fields_of(self._request)
        except ValueError:
            return self._too_much_text()
        return act(fields)


def _numbers(fields: list[tuple[str, str]]) -> tuple[int, ...]:
    """Numbers of the tickets checked in a form; -1 stands for a value that cannot be a number."""
    picked = (value for name, value in fields if name == "k")
    return tuple(int(value) if NUMBER.fullmatch(value) else -1 for value in picked)
