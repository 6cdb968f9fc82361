"""Harbourline's pages except the search: home, a boat, thanks and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from ..markup import render_page
from .catalog import Boat, Catalogue
from .layout import Addresses

NEWEST_SHOWN: Final = 6
NOTHING: Final = Markup("")
TEXTS: Final = frozenset({"about", "advice", "dealers", "sell"})
"""Pages that are only text: each has a template of this name and stands at the address of this name."""
UNSAID: Final = {"who": "", "reply_to": "", "txt": ""}


def home_page(addresses: Addresses, catalogue: Catalogue) -> str:
    """The first page, with the newest listings."""
    boats = catalogue.boats
    return render_page("home.html", addresses, count=len(boats), newest=boats[:NEWEST_SHOWN])


def text_page(addresses: Addresses, name: str) -> str:
    """One of the pages that are only text, by its name in `TEXTS`."""
    return render_page(f"{name}.html", addresses)


def boat_page(
    addresses: Addresses,
    boat: Boat,
    *,
    revealed: bool,
    errors: Sequence[str] = (),
    said: Mapping[str, str] | None = None,
    offered: Markup = NOTHING,
) -> str:
    """A boat: its facts, its phone number or the button that shows it, the dealer's offers, and the contact form."""
    return render_page(
        "boat.html",
        addresses,
        boat=boat,
        revealed=revealed,
        errors=errors,
        said={**UNSAID, **(said or {})},
        offered=offered,
    )


def thanks_page(addresses: Addresses, boat: Boat) -> str:
    """Page shown after a contact request was sent."""
    return render_page("thanks.html", addresses, boat=boat)
