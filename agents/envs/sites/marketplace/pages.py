"""Harbourline's pages but for the search: home, a boat, thanks, texts, and what a wrong address shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..markup import Html, tag
from .catalog import Boat, Catalogue
from .layout import Addresses, render_page
from .results_page import format_price, result_list
from .search import SELLER_WORDS

NEWEST_SHOWN: Final = 6
NOTHING: Final = Html("")
TEXTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "sell": (
        "Sell your boat",
        (
            "Listing a boat costs nothing for private owners. Have the papers and a few photographs at hand.",
            "New listings are closed for the winter; please come back in spring.",
        ),
    ),
    "advice": (
        "Advice",
        (
            "See the boat in daylight and out of the water. Ask for the engine's service book and compare its hours.",
            "Pay nothing before you have seen the title, and take a surveyor along for a boat with an inboard engine.",
        ),
    ),
    "about": (
        "About",
        (
            "Harbourline lists used boats from owners and dealers in ten states.",
            "It is a practice site: nobody receives what you send here.",
        ),
    ),
}


def home_page(addresses: Addresses, catalogue: Catalogue) -> str:
    """The first page, with the newest listings."""
    return render_page(
        addresses,
        "Home",
        tag("h1", None, "Find the boat that suits your water"),
        tag(
            "p",
            None,
            f"{len(catalogue.boats)} used boats from private owners and dealers. Use the menu to look around.",
        ),
        tag("h2", None, "Just listed"),
        result_list(addresses, catalogue.boats[:NEWEST_SHOWN], label="Just listed"),
    )


def text_page(addresses: Addresses, name: str, *more: Html) -> str:
    """One of the pages that are only text; KeyError if there is none of that name."""
    title, paragraphs = TEXTS[name]
    return render_page(
        addresses, title, tag("h1", None, title), *(tag("p", None, words) for words in paragraphs), *more
    )


def boat_page(
    addresses: Addresses,
    boat: Boat,
    *,
    revealed: bool,
    errors: Sequence[str] = (),
    said: Mapping[str, str] | None = None,
    offered: Html = NOTHING,
) -> str:
    """A boat with its facts, its phone number or the button for it, what is offered with it, and the form that asks."""
    return render_page(
        addresses,
        boat.title,
        tag("h1", None, boat.title),
        tag("p", None, boat.description),
        _facts("Facts", _boat_facts(boat)),
        _facts("Engine specification", _engine_facts(boat)),
        _phone_part(addresses, boat, revealed=revealed),
        offered,
        _lead_form(addresses, boat, errors, said or {}),
    )


def thanks_page(addresses: Addresses, boat: Boat) -> str:
    """What a buyer sees after a request for details."""
    return render_page(
        addresses,
        "Thank you",
        tag("h1", None, "Thank you"),
        tag("p", {"role": "status"}, f"Your request about the {boat.title} was sent to the seller."),
        tag("p", None, tag("a", {"href": addresses.of("detail", boat)}, "Back to the boat")),
    )


def missing_page(addresses: Addresses) -> str:
    """What an address shows that this site does not have."""
    return render_page(
        addresses,
        "Page not found",
        tag("h1", None, "Page not found"),
        tag("p", None, "There is nothing at this address. The menu at the top leads to every part of the site."),
    )


def refused_page(addresses: Addresses, words: str) -> str:
    """What a request shows that cannot be read."""
    return render_page(addresses, "Not possible", tag("h1", None, "Not possible"), tag("p", {"role": "alert"}, words))


def _boat_facts(boat: Boat) -> tuple[tuple[str, str], ...]:
    return (
        ("Make", boat.make),
        ("Model", boat.model),
        ("Year", str(boat.year)),
        ("Length", f"{boat.length_ft} ft"),
        ("Price", format_price(boat.price)),
        ("State", boat.state),
        ("Seller", SELLER_WORDS[boat.seller]),
        ("Listing number", str(boat.id)),
    )


def _engine_facts(boat: Boat) -> tuple[tuple[str, str], ...]:
    engine = boat.engine
    return ("Engine make", engine.make), ("Horsepower", f"{engine.hp} hp"), ("Engine hours", f"{engine.hours} h")


def _facts(caption: str, facts: Sequence[tuple[str, str]]) -> Html:
    rows = (tag("tr", None, tag("th", {"scope": "row"}, name), tag("td", None, fact)) for name, fact in facts)
    return tag("table", {"class": "card"}, tag("caption", None, caption), tag("tbody", None, *rows))


def _phone_part(addresses: Addresses, boat: Boat, *, revealed: bool) -> Html:
    shown = (
        tag("p", {"role": "status"}, "Phone number: ", tag("strong", None, boat.phone))
        if revealed
        else tag(
            "form",
            {"method": "post", "action": addresses.of("phone", boat)},
            tag("button", {"type": "submit"}, "Show phone number"),
        )
    )
    return tag("section", {"class": "card"}, tag("h2", None, "Call the seller"), shown)


def _lead_form(addresses: Addresses, boat: Boat, errors: Sequence[str], said: Mapping[str, str]) -> Html:
    return tag(
        "form",
        {
            "class": "card",
            "method": "post",
            "action": addresses.of("lead", boat),
            "novalidate": True,
            "autocomplete": "off",
        },
        tag("h2", None, "Write to the seller"),
        *(tag("p", {"class": "error", "role": "alert"}, words) for words in errors),
        tag("label", {"for": "hl-c1"}, "Your name"),
        tag("input", {"id": "hl-c1", "name": "who", "type": "text", "value": said.get("who", "")}),
        tag("label", {"for": "hl-c2"}, "Email"),
        tag("input", {"id": "hl-c2", "name": "reply_to", "type": "email", "value": said.get("reply_to", "")}),
        tag("label", {"for": "hl-c3"}, "Message"),
        # The parser of HTML drops a newline that comes first in a textarea.
        tag("textarea", {"id": "hl-c3", "name": "txt", "rows": "5"}, "\n" + said.get("txt", "")),
        tag("button", {"type": "submit"}, "Request details"),
    )
