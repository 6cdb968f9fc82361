"""A ticket: who wrote what, the replies sent, the form that answers, and the tickets that look like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import Html, tag
from .inbox_page import ticket_list
from .instance import Desk
from .layout import Addresses, choice, complaint, render_page
from .macros import MACROS
from .mailbox import Ticket
from .replies import DO, MACRO, MESSAGE, QUOTE, QUOTES, STATUS, UNCHANGED, VISIBILITIES, VISIBILITY, Reply
from .stock import STATUSES

ANYONE, SAME = "all", "same"
SENDERS = {ANYONE: "Any customer", SAME: "Same customer"}


@dataclass(frozen=True, slots=True)
class TicketExtras:
    """What a ticket's page shows beside the ticket: a reply that was not sent, what a check found, similar tickets.

    `similar` is None where they were not asked for, or are not there yet (`is_slow`).
    """

    draft: Reply | None = None
    found: tuple[str, ...] | None = None
    sender: str = ANYONE
    similar: Sequence[Ticket] | None = None
    is_slow: bool = False
    errors: tuple[str, ...] = ()


def ticket_page(addresses: Addresses, desk: Desk, ticket: Ticket, shown: TicketExtras) -> str:
    """Everything about one ticket."""
    return render_page(
        addresses,
        ticket.subject,
        tag("h1", None, ticket.subject),
        *(complaint(words) for words in shown.errors),
        _facts(desk, ticket),
        tag("section", {"class": "card"}, tag("h2", None, "Message"), tag("blockquote", None, ticket.body)),
        *_sent_section(desk, ticket),
        _reply_form(addresses, ticket, shown),
        _similar(addresses, desk, ticket, shown),
    )


def _facts(desk: Desk, ticket: Ticket) -> Html:
    who = desk.customer(ticket)
    merged = "" if ticket.merged_into is None else f"Merged into ticket {ticket.merged_into}. "
    facts = (f"Ticket {ticket.number}", who.name, who.plan, ticket.topic, ticket.status, ticket.team, ticket.priority)
    return tag("p", None, merged + " · ".join(facts))


def _sent_section(desk: Desk, ticket: Ticket) -> Sequence[Html]:
    return [
        tag("section", {"class": "card"}, tag("h2", None, "Reply"), tag("blockquote", None, text))
        for text in desk.replies(ticket)
    ]


def _reply_form(addresses: Addresses, ticket: Ticket, shown: TicketExtras) -> Html:
    draft = shown.draft or Reply("", "internal", quote=True, message="", status=None, errors=())
    macros = {"": "No macro", **{macro.key: macro.title for macro in MACROS}}
    statuses: dict[str, str] = {"": UNCHANGED} | {str(status): str(status) for status in STATUSES}
    return tag(
        "form",
        {"class": "card", "method": "post", "action": addresses.of("reply", ticket), "autocomplete": "off"},
        tag("h2", None, "Answer"),
        *(complaint(words) for words in draft.errors),
        *([] if shown.found is None else [_check_mark(shown.found)]),
        tag(
            "div",
            {"class": "fields"},
            choice("lp-r1", MACRO, "Macro", macros, draft.macro),
            choice("lp-r2", VISIBILITY, "Seen by", VISIBILITIES, draft.visibility),
            choice("lp-r3", QUOTE, "Quote the message", QUOTES, "y" if draft.quote else "n"),
            choice("lp-r4", STATUS, "New status", statuses, draft.status or ""),
        ),
        tag("label", {"for": "lp-r5"}, "Message"),
        # The parser of HTML drops a newline that comes first in a textarea.
        tag("textarea", {"id": "lp-r5", "name": MESSAGE, "rows": "4"}, "\n" + draft.message),
        tag("button", {"type": "submit", "name": DO, "value": "check"}, "Check for personal data"),
        tag("button", {"type": "submit", "name": DO, "value": "send"}, "Send"),
    )


def _check_mark(found: tuple[str, ...]) -> Html:
    if not found:
        return tag("p", {"role": "status"}, "No personal data was found.")
    return complaint(f"This reply holds {' and '.join(found)}. It was not sent.")


def _similar(addresses: Addresses, desk: Desk, ticket: Ticket, shown: TicketExtras) -> Html:
    asking = tag(
        "form",
        {"method": "get", "action": addresses.of("ticket", ticket), "autocomplete": "off"},
        choice("lp-m1", "by", "Sent by", SENDERS, shown.sender),
        tag("button", {"type": "submit"}, "Find similar"),
    )
    return tag(
        "section",
        {"class": "card"},
        tag("h2", None, "Similar tickets"),
        asking,
        *_found_section(addresses, desk, ticket, shown),
    )


def _found_section(addresses: Addresses, desk: Desk, ticket: Ticket, shown: TicketExtras) -> Sequence[Html]:
    if shown.is_slow:
        return [tag("p", {"role": "status"}, "Similar tickets are still being looked up. Please ask again.")]
    if shown.similar is None:
        return []
    if not shown.similar:
        return [tag("p", {"role": "status"}, "There are none.")]
    merging = tag(
        "form",
        {"method": "post", "action": addresses.of("merge", ticket), "autocomplete": "off"},
        ticket_list(addresses, desk, shown.similar, label="Similar tickets"),
        tag("button", {"type": "submit"}, "Merge checked tickets into this one"),
    )
    return [merging]
