"""Inbox search: reading the form's fields and filtering the tickets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..paging import PAGE, Query, Results, cut_page
from .instance import Desk
from .mailbox import Ticket
from .stock import PLANS, STATUSES, TOPICS

PAGE_SIZE: Final = 25
MOST_DIGITS: Final = 6
NAMES: Final = ("tp", "pl", "st", "w", "o", PAGE)
TOPIC_CODES: Final = {f"t{place}": topic for place, topic in enumerate(TOPICS, 1)}
PLAN_CODES: Final = {f"p{place}": plan for place, plan in enumerate(PLANS, 1)}
STATUS_CODES: Final = {f"s{place}": status for place, status in enumerate(STATUSES, 1)}
ORDERS: Final = {"late": "Newest first", "early": "Oldest first"}


def read_query(parameters: Mapping[str, str]) -> Query:
    """Read a search from the address; `errors` names the fields that cannot be read."""
    fields = {name: parameters.get(name, "").strip() for name in NAMES}
    codes = (("tp", TOPIC_CODES, "topic"), ("pl", PLAN_CODES, "plan"), ("st", STATUS_CODES, "status"))
    errors = [
        f"We do not know that {what}." for name, known, what in codes if fields[name] and fields[name] not in known
    ]
    digits = fields[PAGE] or "1"
    is_page = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    errors += [] if is_page else ["The page must be a whole number."]
    return Query(fields, max(1, int(digits)) if is_page else 1, tuple(errors))


def find_results(desk: Desk, query: Query) -> Results[Ticket]:
    """Filter, sort and cut one page; merged tickets never appear, and a page beyond the last is the last."""
    left = [ticket for ticket in desk.tickets if ticket.merged_into is None and _passes(desk, ticket, query)]
    if query.fields["o"] != "early":
        left.reverse()
    return cut_page(left, query.page, PAGE_SIZE)


def _passes(desk: Desk, ticket: Ticket, query: Query) -> bool:
    asked = query.fields
    words = asked["w"].casefold()
    return (
        TOPIC_CODES.get(asked["tp"]) in (None, ticket.topic)
        and PLAN_CODES.get(asked["pl"]) in (None, desk.customer(ticket).plan)
        and STATUS_CODES.get(asked["st"]) in (None, ticket.status)
        and words in f"{ticket.subject} {ticket.body} {desk.customer(ticket).name}".casefold()
    )
