"""The inbox: the search form, the tickets it leaves, and the form that assigns those shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..markup import Html, tag
from ..paging import Query, Results, count_results, page_links
from .instance import Desk
from .layout import Addresses, choice, complaint, picked_box, render_page
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
    """The search form as it was filled in, one page of tickets, the form that assigns them; `assigned` says it was."""
    told = [] if assigned is None else [tag("p", {"role": "status"}, f"Assigned: {assigned}.")]
    return render_page(
        addresses,
        "Inbox",
        tag("h1", None, "Inbox"),
        *told,
        *(complaint(words) for words in (*query.errors, *errors)),
        _search(addresses, query),
        tag("p", {"role": "status"}, count_results(results, "ticket")),
        _results_section(addresses, desk, results),
        page_links(addresses.of("inbox"), query, results),
    )


def ticket_list(addresses: Addresses, desk: Desk, tickets: Sequence[Ticket], *, label: str) -> Html:
    """Tickets as a list of links, each with the box that takes it along."""
    rows = (tag("li", None, picked_box(ticket.number), _link(addresses, desk, ticket)) for ticket in tickets)
    return tag("ol", {"class": "tickets", "aria-label": label}, *rows)


def _link(addresses: Addresses, desk: Desk, ticket: Ticket) -> Html:
    who = desk.customer(ticket)
    facts = (who.name, who.plan, ticket.topic, ticket.status, ticket.team)
    return tag(
        "a",
        {"href": addresses.of("ticket", ticket)},
        tag("strong", None, ticket.subject),
        " · " + " · ".join(facts),
    )


def _search(addresses: Addresses, query: Query) -> Html:
    asked = query.fields
    return tag(
        "form",
        {"class": "card", "method": "get", "action": addresses.of("inbox"), "autocomplete": "off"},
        tag(
            "div",
            {"class": "fields"},
            choice("lp-s1", "tp", "Topic", _or_any(TOPIC_CODES), asked["tp"]),
            choice("lp-s2", "pl", "Plan", _or_any(PLAN_CODES), asked["pl"]),
            choice("lp-s3", "st", "Status", _or_any(STATUS_CODES), asked["st"]),
            tag(
                "div",
                None,
                tag("label", {"for": "lp-s4"}, "Words"),
                tag("input", {"id": "lp-s4", "name": "w", "type": "text", "value": asked["w"]}),
            ),
            choice("lp-s5", "o", "Sort by", ORDERS, asked["o"]),
        ),
        tag("button", {"type": "submit"}, "Show"),
    )


def _results_section(addresses: Addresses, desk: Desk, results: Results[Ticket]) -> Html:
    if not results.rows:
        return tag("p", None, "No ticket looks like that.")
    return tag(
        "form",
        {"class": "card", "method": "post", "action": addresses.of("assign"), "autocomplete": "off"},
        ticket_list(addresses, desk, results.rows, label="Tickets"),
        tag(
            "div",
            {"class": "fields"},
            choice("lp-a1", "tm", "Team", {"": "Choose a team", **TEAM_CODES}, ""),
            choice("lp-a2", "pr", "Priority", {"": "Unchanged", **PRIORITY_CODES}, ""),
        ),
        tag("button", {"type": "submit"}, "Assign checked tickets"),
    )


def _or_any(codes: Mapping[str, str]) -> Mapping[str, str]:
    return {"": "Any", **codes}
