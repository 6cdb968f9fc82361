"""The desk's macros, and the reply text that they are filled in to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .mailbox import Customer, Ticket


@dataclass(frozen=True, slots=True)
class Macro:
    """A reusable reply text; fields in braces are filled in from the ticket."""

    key: str
    title: str
    text: str


MACROS: Final = (
    Macro("late", "Order is late", "Hello {first}, your order {order} is late. It will be with you within a week."),
    Macro(
        "address",
        "Order is late, with address",
        "Hello {first}, your order {order} is late. We send it to {street} and call you at {phone}.",
    ),
    Macro("refund", "Refund has started", "Hello {first}, the refund for order {order} has started."),
    Macro("password", "Password steps", "Hello {first}, open the login page and choose 'Forgotten'."),
    Macro("outage", "Outage notice", "Hello {first}, we know of the outage and work on it."),
)
BY_KEY: Final = {macro.key: macro for macro in MACROS}


def fill_macro(macro: Macro, ticket: Ticket, customer: Customer) -> str:
    """A macro's text, filled in for one ticket."""
    return macro.text.format(first=customer.first, order=ticket.order, street=customer.street, phone=customer.phone)


def quote_message(ticket: Ticket) -> str:
    """A ticket's message as a reply quotes it."""
    return f"> {ticket.body}"
