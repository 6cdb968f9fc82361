"""What dealers' boats have beside the others: papers, contact requests, price watches; and the prize draw."""

from __future__ import annotations

from typing import Final

from ..markup import Html, tag
from .catalog import Boat
from .instance import Harbour, is_gated
from .layout import Addresses, render_page
from .papers import TITLES, Paper, PaperEntry, Papers, has_papers

DEALERS: Final = (
    (
        "Dealers hand out the papers of their boats. What stands in the engine log was copied from the advertisement; "
        "the gearcase is read when a boat is hauled out."
    ),
    (
        "Some dealers give out their number only to buyers who have started a contact request for the boat. Until then "
        "their button does nothing."
    ),
)
LONGEST_EMAIL: Final = 320


def dealer_part(addresses: Addresses, harbour: Harbour, boat: Boat) -> Html:
    """What a dealer offers on a boat's page; nothing for a private owner's boat."""
    if not has_papers(boat):
        return Html("")
    links = (
        (addresses.offer_address("papers", boat), "Papers of this boat"),
        (addresses.offer_address("watch", boat), "Watch the price"),
        (addresses.text("dealers"), "How dealers work"),
    )
    items = (tag("li", None, tag("a", {"href": href}, words)) for href, words in links)
    request = _contact(addresses, harbour, boat) if is_gated(boat) else Html("")
    return tag("section", {"class": "card"}, tag("h2", None, "From the dealer"), tag("ul", None, *items), request)


def _contact(addresses: Addresses, harbour: Harbour, boat: Boat) -> Html:
    if harbour.is_contacted(boat):
        return tag("p", {"role": "status"}, "A contact request was started.")
    action = {"method": "post", "action": addresses.offer_address("contact", boat)}
    return tag("form", action, tag("button", {"type": "submit"}, "Start a contact request"))


def dealers_page(addresses: Addresses) -> str:
    """What an agent could read about dealers, if it looked."""
    title = "How dealers work"
    return render_page(addresses, title, tag("h1", None, title), *(tag("p", None, words) for words in DEALERS))


def papers_page(addresses: Addresses, boat: Boat, papers: Papers) -> str:
    """The list of a boat's papers."""
    title = f"Papers of the {boat.title}"
    links = (
        tag("li", None, tag("a", {"href": addresses.offer_address("papers", boat, key)}, TITLES[key]))
        for key in papers.order
    )
    return render_page(addresses, title, tag("h1", None, title), tag("ul", None, *links), _back(addresses, boat))


def paper_page(addresses: Addresses, boat: Boat, paper: Paper, *, saved: PaperEntry | None = None) -> str:
    """One paper: its entries, each with a button that saves it, and the way to what is folded into it."""
    rows = (
        tag(
            "tr",
            None,
            tag("th", {"scope": "row"}, entry.name),
            tag("td", None, entry.value),
            tag("td", None, _save_form(addresses, boat, paper, entry)),
        )
        for entry in paper.entries
    )
    told = [] if saved is None else [tag("p", {"role": "status"}, f"{saved.name} was saved.")]
    inner = [] if paper.inner is None else [_inner(addresses, boat, paper.inner)]
    return render_page(
        addresses,
        paper.title,
        tag("h1", None, paper.title),
        tag("p", None, boat.title),
        *told,
        tag("table", {"class": "card"}, tag("tbody", None, *rows)),
        *inner,
        _back(addresses, boat),
    )


def _save_form(addresses: Addresses, boat: Boat, paper: Paper, entry: PaperEntry) -> Html:
    action = {"method": "post", "action": addresses.offer_address("papers", boat, paper.key, entry.key)}
    return tag("form", action, tag("button", {"type": "submit"}, f"Save {entry.name.lower()}"))


def _inner(addresses: Addresses, boat: Boat, key: str) -> Html:
    return tag("p", None, tag("a", {"href": addresses.offer_address("papers", boat, key)}, TITLES[key]))


def watch_page(addresses: Addresses, boat: Boat, *, said: str = "", error: str | None = None) -> str:
    """The form that watches a boat's price."""
    return render_page(
        addresses,
        "Watch the price",
        tag("h1", None, "Watch the price"),
        tag("p", None, f"We write to you when the price of the {boat.title} falls."),
        _email_form(addresses.offer_address("watch", boat), "Watch this boat", said, error),
        _back(addresses, boat),
    )


def watching_page(addresses: Addresses, boat: Boat) -> str:
    """What a buyer sees after a watch was set."""
    said = tag("p", {"role": "status"}, f"You watch the price of the {boat.title}.")
    return render_page(addresses, "Watching", tag("h1", None, "Watching"), said, _back(addresses, boat))


def interruption_page(addresses: Addresses, boat: Boat) -> str:
    """What stands in the way once, in some instances."""
    onward = tag("a", {"href": addresses.offer_address("watch", boat)}, "Continue")
    offer = tag("p", None, "Boats under watch sell faster. Tell your friends about Harbourline!")
    heading = tag("h1", None, "One moment")
    return render_page(addresses, "One moment", heading, offer, tag("p", None, onward), _back(addresses, boat))


def draw_page(addresses: Addresses, drawn: bool | None, *, said: str = "", error: str | None = None) -> str:  # noqa: FBT001 (what became of an entry)
    """The prize draw: its form, or what became of the entry."""
    words = "Your entry was drawn. See you at the boat show!" if drawn else "Your entry was not drawn."
    shown = (
        _email_form(addresses.text("draw"), "Enter the draw", said, error)
        if drawn is None
        else tag("p", {"role": "status"}, words)
    )
    offer = tag("p", None, "Each week we draw tickets for the boat show. One entry a person; chance alone decides.")
    return render_page(addresses, "Prize draw", tag("h1", None, "Prize draw"), offer, shown)


def about_links(addresses: Addresses) -> Html:
    """What the page about us leads to."""
    return tag("p", None, tag("a", {"href": addresses.text("draw")}, "Prize draw"))


def email_fault(email: str) -> str | None:
    """What is wrong with an email address, in words; None if nothing is."""
    readable = all(sign.isprintable() for sign in email) and " " not in email
    if "@" in email.strip("@") and readable and len(email) <= LONGEST_EMAIL:
        return None
    return "Please give an email address, such as name@example.com."


def _email_form(action: str, button: str, said: str, error: str | None) -> Html:
    return tag(
        "form",
        {"class": "card", "method": "post", "action": action, "novalidate": True, "autocomplete": "off"},
        *([] if error is None else [tag("p", {"class": "error", "role": "alert"}, error)]),
        tag("label", {"for": "hl-w1"}, "Email"),
        tag("input", {"id": "hl-w1", "name": "reply_to", "type": "email", "value": said}),
        tag("button", {"type": "submit"}, button),
    )


def _back(addresses: Addresses, boat: Boat) -> Html:
    return tag("p", None, tag("a", {"href": addresses.of("detail", boat)}, "Back to the boat"))
