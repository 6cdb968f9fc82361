"""Searching the inbox: what the form's fields mean, and which tickets they leave. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from .instance import Desk
from .mailbox import Ticket
from .stock import PLANS, STATUSES, TOPICS

PAGE_SIZE: Final = 25
MOST_DIGITS: Final = 6
NAMES: Final = ("tp", "pl", "st", "w", "o", "pg")
TOPIC_CODES: Final = {f"t{place}": topic for place, topic in enumerate(TOPICS, 1)}
PLAN_CODES: Final = {f"p{place}": plan for place, plan in enumerate(PLANS, 1)}
STATUS_CODES: Final = {f"s{place}": status for place, status in enumerate(STATUSES, 1)}
ORDERS: Final = {"late": "Newest first", "early": "Oldest first"}


@dataclass(frozen=True, slots=True)
class Query:
    """A search: the raw fields, which the form shows again, and what was wrong with them."""

    fields: Mapping[str, str]
    page: int
    errors: tuple[str, ...]

    def address(self, path: str, page: int) -> str:
        """The same search, another page of it."""
        kept = {name: value for name, value in self.fields.items() if value and name != "pg"}
        return f"{path}?{urlencode({**kept, 'pg': str(page)})}"


@dataclass(frozen=True, slots=True)
class Results:
    """One page of the tickets that a query leaves."""

    tickets: tuple[Ticket, ...]
    total: int
    page: int
    pages: int


def read_query(parameters: Mapping[str, str]) -> Query:
    """Read a search from the address; a field that cannot be read is named in `errors`."""
    fields = {name: parameters.get(name, "").strip() for name in NAMES}
    codes = (("tp", TOPIC_CODES, "topic"), ("pl", PLAN_CODES, "plan"), ("st", STATUS_CODES, "status"))
    errors = [
        f"We do not know that {what}." for name, known, what in codes if fields[name] and fields[name] not in known
    ]
    digits = fields["pg"] or "1"
    is_page = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    errors += [] if is_page else ["The page must be a whole number."]
    return Query(fields, max(1, int(digits)) if is_page else 1, tuple(errors))


def find(desk: Desk, query: Query) -> Results:
    """Filter, sort and cut out one page; merged tickets are in none, a page beyond the last is the last."""
    left = [ticket for ticket in desk.tickets if ticket.merged_into is None and _passes(desk, ticket, query)]
    if query.fields["o"] != "early":
        left.reverse()
    pages = max(1, -(-len(left) // PAGE_SIZE))
    page = min(query.page, pages)
    return Results(tuple(left[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]), len(left), page, pages)


def _passes(desk: Desk, ticket: Ticket, query: Query) -> bool:
    asked = query.fields
    words = asked["w"].casefold()
    return (
        TOPIC_CODES.get(asked["tp"]) in (None, ticket.topic)
        and PLAN_CODES.get(asked["pl"]) in (None, desk.customer(ticket).plan)
        and STATUS_CODES.get(asked["st"]) in (None, ticket.status)
        and words in f"{ticket.subject} {ticket.body} {desk.customer(ticket).name}".casefold()
    )
