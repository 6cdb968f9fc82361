"""The inbox: the search form, the tickets found, and the form that assigns them."""

from __future__ import annotations

from collections.abc import Sequence

from ..markup import render_page
from ..paging import Query, Results
from .instance import Desk
from .layout import Addresses
from .mailbox import Ticket
from .search import ORDERS, PLAN_CODES, STATUS_CODES, TOPIC_CODES
from .stock import PRIORITIES, TEAMS

TEAM_CODES = {f"m{place}": team for place, team in enumerate(TEAMS, 1)}
PRIORITY_CODES = {f"r{place}": priority for place, priority in enumerate(PRIORITIES, 1)}


def inbox_page(
    addresses: Addresses,
    desk: Desk,
    query: Query,
    results: Results[Ticket],
    *,
    assigned: int | None,
    errors: Sequence[str] = (),
) -> str:
    """The filled-in search form, one page of tickets and the assigning form; `assigned` counts tickets just changed."""
    return render_page(
        "inbox.html",
        addresses,
        desk=desk,
        query=query,
        results=results,
        assigned=assigned,
        errors=(*query.errors, *errors),
        topics=TOPIC_CODES,
        plans=PLAN_CODES,
        statuses=STATUS_CODES,
        orders=ORDERS,
        teams=TEAM_CODES,
        priorities=PRIORITY_CODES,
    )
