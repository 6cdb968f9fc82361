"""Known solutions of Harbourline's tasks, done over its pages as an agent would do them.

Only for probing the site, never for learning or judging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...clients.pages import Absent, Page
from ...clients.session import Session
from .catalog import Boat, Catalogue, catalogue
from .further_tasks import (
    CONTACT_ID,
    CONTACT_WANTED,
    DRAW_ID,
    EMAIL,
    SPEC_ID,
    SPEC_WANTED,
    WATCH_ID,
    WATCH_WANTED,
    right_boat,
)
from .layout import format_price
from .search import SELLER_WORDS
from .tasks import LEAD_ID, LEAD_REQUEST, LEAD_WANTED, PHONE_ID, PHONE_WANTED

ONCE_MORE: Final = 3
"""Attempts at a page that is interrupted or has to be sent again."""


def solve(session: Session, task_id: str, seed: int) -> None:
    """Do a task with the answer of a seed. Raises Absent if the pages do not hold it, KeyError for an unknown task."""
    SOLUTIONS[task_id](session, catalogue(seed))


def _lead(session: Session, stock: Catalogue) -> None:
    page = _find_boat(session, stock.qualifying_boats(LEAD_WANTED)[0])
    page.fill("Your name", LEAD_REQUEST.name)
    page.fill("Email", LEAD_REQUEST.email)
    page.fill("Message", LEAD_REQUEST.message)
    session.submit(page, "Request details")


def _phone(session: Session, stock: Catalogue) -> None:
    session.submit(_find_boat(session, stock.qualifying_boats(PHONE_WANTED)[0]), "Show phone number")


def _spec(session: Session, stock: Catalogue) -> None:
    page = _find_boat(session, right_boat(stock, SPEC_WANTED))
    for label in ("Papers of this boat", "Haul-out report", "Below the waterline"):
        page = session.open(page.link(label).path)
    session.submit(page, "Save gear ratio")


def _contact(session: Session, stock: Catalogue) -> None:
    page = session.submit(_find_boat(session, right_boat(stock, CONTACT_WANTED)), "Start a contact request")
    session.submit(page, "Show phone number")


def _watch(session: Session, stock: Catalogue) -> None:
    found = _find_boat(session, right_boat(stock, WATCH_WANTED))
    page = session.open(found.link("Watch the price").path)
    for _ in range(ONCE_MORE):
        try:
            page.fill("Email", EMAIL)
        except Absent:
            page = session.open(found.link("Watch the price").path)
            continue
        page = session.submit(page, "Watch this boat")
        if "You watch" in page.text():
            return


def _draw(session: Session, _stock: Catalogue) -> None:
    page = session.open("/")
    for label in ("About", "Prize draw"):
        page = session.open(page.link(label).path)
    page.fill("Email", EMAIL)
    session.submit(page, "Enter the draw")


SOLUTIONS: Final[Mapping[str, Callable[[Session, Catalogue], None]]] = {
    LEAD_ID: _lead,
    PHONE_ID: _phone,
    SPEC_ID: _spec,
    CONTACT_ID: _contact,
    WATCH_ID: _watch,
    DRAW_ID: _draw,
}


def _find_boat(session: Session, boat: Boat) -> Page:
    """Page of a boat, found by a search in which it is the most expensive result. Raises Absent."""
    page = session.open(session.open("/").link("Boats for sale").path)
    page.choose("Make", boat.make)
    page.choose("Seller", SELLER_WORDS[boat.seller])
    page.fill("Maximum price", str(boat.price))
    page.choose("Sort by", "Price: high to low")
    results = session.submit(page, "Search")
    return session.open(results.link(f"{boat.title} · {format_price(boat.price)}").path)
