"""Pages of dealers' offers (papers, contact requests, price watches) and of the prize draw."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from ..markup import render_page
from .catalog import Boat
from .instance import Harbour, is_gated
from .layout import Addresses
from .papers import TITLES, Paper, PaperEntry, Papers, has_papers

LONGEST_EMAIL: Final = 320


def dealer_part(addresses: Addresses, harbour: Harbour, boat: Boat) -> Markup:
    """The dealer's offers on a boat's page; empty for a private owner's boat."""
    if not has_papers(boat):
        return Markup("")
    contacted = harbour.is_contacted(boat) if is_gated(boat) else None
    return Markup(render_page("dealer.html", addresses, boat=boat, contacted=contacted))  # noqa: S704 (a template)


def papers_page(addresses: Addresses, boat: Boat, papers: Papers) -> str:
    """The list of a boat's papers."""
    return render_page("papers.html", addresses, boat=boat, papers=papers, titles=TITLES)


def paper_page(addresses: Addresses, boat: Boat, paper: Paper, *, saved: PaperEntry | None = None) -> str:
    """One paper: its entries, each with a button that saves it, and a link to the paper inside it."""
    return render_page("paper.html", addresses, boat=boat, paper=paper, saved=saved, titles=TITLES)


def watch_page(addresses: Addresses, boat: Boat, *, said: str = "", error: str | None = None) -> str:
    """The form that watches a boat's price."""
    return render_page("watch.html", addresses, boat=boat, said=said, error=error)


def watching_page(addresses: Addresses, boat: Boat) -> str:
    """Page shown after a price watch was set."""
    return render_page("watching.html", addresses, boat=boat)


def interruption_page(addresses: Addresses, boat: Boat) -> str:
    """Page shown once before the watch form, in some instances."""
    return render_page("interruption.html", addresses, boat=boat)


def draw_page(addresses: Addresses, drawn: bool | None, *, said: str = "", error: str | None = None) -> str:  # noqa: FBT001 (the result itself)
    """The prize draw: its form, or the result of the entry once there is one."""
    return render_page("draw.html", addresses, drawn=drawn, said=said, error=error)


def email_fault(email: str) -> str | None:
    """Error message for an invalid email address; None for a valid one."""
    readable = all(sign.isprintable() for sign in email) and " " not in email
    if "@" in email.strip("@") and readable and len(email) <= LONGEST_EMAIL:
        return None
    return "Please give an email address, such as name@example.com."
