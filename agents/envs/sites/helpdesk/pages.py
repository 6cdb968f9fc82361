"""Lanternpost's other pages: home, macros, house rules and call-backs."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..markup import render_page
from .instance import Desk
from .layout import Addresses
from .macros import MACROS
from .stock import TOPICS

SLOTS: Final = {"c1": "Morning", "c2": "Afternoon"}


def home_page(addresses: Addresses, desk: Desk) -> str:
    """The first page, with the number of new tickets of each topic."""
    new = Counter(ticket.topic for ticket in desk.tickets if ticket.status == "New" and ticket.merged_into is None)
    return render_page("home.html", addresses, topics=TOPICS, new=new)


def macros_page(addresses: Addresses) -> str:
    """Every macro and its text."""
    return render_page("macros.html", addresses, macros=MACROS)


def rules_page(addresses: Addresses) -> str:
    """The desk's rules, which an agent may read."""
    return render_page("rules.html", addresses)


def callbacks_page(addresses: Addresses, granted: bool | None, *, error: str | None = None) -> str:  # noqa: FBT001 (the answer itself)
    """The form that asks for a call-back slot, or the answer to that request once there is one."""
    return render_page("callbacks.html", addresses, granted=granted, slots=SLOTS, error=error)
