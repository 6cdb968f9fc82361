"""A ticket's page: its message, the replies sent, the form that answers it, and similar tickets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import render_page
from .instance import Desk
from .layout import Addresses
from .macros import MACROS
from .mailbox import Ticket
from .replies import QUOTES, VISIBILITIES, Reply
from .stock import STATUSES

ANYONE, SAME = "all", "same"
SENDERS = {ANYONE: "Any customer", SAME: "Same customer"}
EMPTY = Reply("", "internal", quote=True, message="", status=None, errors=())


@dataclass(frozen=True, slots=True)
class TicketExtras:
    """Parts of a ticket's page beside the ticket: an unsent reply, the result of its check, similar tickets.

    `similar` is None if they were not requested or are still being looked up (`is_slow`).
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
        "ticket.html",
        addresses,
        desk=desk,
        ticket=ticket,
        customer=desk.customer(ticket),
        replies=desk.replies(ticket),
        shown=shown,
        draft=shown.draft or EMPTY,
        macros={macro.key: macro.title for macro in MACROS},
        visibilities=VISIBILITIES,
        quotes=QUOTES,
        statuses={status: status for status in STATUSES},
        senders=SENDERS,
    )
