"""Lanternpost's other pages: home, macros, house rules, call-backs, and what a wrong address shows."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..markup import tag
from .instance import Desk
from .layout import Addresses, choice, complaint, render_page
from .macros import MACROS
from .stock import TOPICS

SLOTS: Final = {"c1": "Morning", "c2": "Afternoon"}
RULES: Final = (
    "A ticket belongs to the team that can solve it. Customers who pay more do not wait longer.",
    (
        "A public reply holds no personal data: no card, no phone number, no email address, no street. A quoted "
        "message carries everything that the customer wrote."
    ),
    "Duplicates go into the ticket that came first. Two customers with one problem are two tickets.",
)


def home_page(addresses: Addresses, desk: Desk) -> str:
    """The first page: how much of each topic is new."""
    new = Counter(ticket.topic for ticket in desk.tickets if ticket.status == "New" and ticket.merged_into is None)
    rows = (tag("li", None, f"{topic}: {new[topic]} new") for topic in TOPICS)
    return render_page(
        addresses, "Home", tag("h1", None, "Good to see you"), tag("p", None, "What waits:"), tag("ul", None, *rows)
    )


def macros_page(addresses: Addresses) -> str:
    """Every macro and its text."""
    rows = (tag("li", None, tag("strong", None, macro.title), f": {macro.text}") for macro in MACROS)
    return render_page(addresses, "Macros", tag("h1", None, "Macros"), tag("ul", None, *rows))


def rules_page(addresses: Addresses) -> str:
    """What an agent could read about how the desk works, if it looked."""
    return render_page(
        addresses, "House rules", tag("h1", None, "House rules"), *(tag("p", None, words) for words in RULES)
    )


def callbacks_page(addresses: Addresses, granted: bool | None, *, error: str | None = None) -> str:  # noqa: FBT001 (what became of it)
    """The form that asks for a slot, or what became of it."""
    words = "Your slot was granted." if granted else "Your slot was not granted."
    form = tag(
        "form",
        {"class": "card", "method": "post", "action": addresses.text("callbacks"), "autocomplete": "off"},
        *([] if error is None else [complaint(error)]),
        choice("lp-c1", "slo", "Slot", {"": "Choose a slot", **SLOTS}, ""),
        tag("button", {"type": "submit"}, "Ask for a slot"),
    )
    offer = tag("p", None, "There are fewer slots than people who ask. One request a person; chance alone decides.")
    shown = form if granted is None else tag("p", {"role": "status"}, words)
    return render_page(addresses, "Call-backs", tag("h1", None, "Call-backs"), offer, shown)


def missing_page(addresses: Addresses) -> str:
    """What an address shows that this site does not have."""
    words = "There is nothing at this address. The menu at the top leads to every part of the desk."
    return render_page(addresses, "Page not found", tag("h1", None, "Page not found"), tag("p", None, words))


def refused_page(addresses: Addresses, words: str) -> str:
    """What a request shows that cannot be read."""
    return render_page(addresses, "Not possible", tag("h1", None, "Not possible"), complaint(words))
