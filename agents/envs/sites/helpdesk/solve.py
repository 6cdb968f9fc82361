"""Known solutions of Lanternpost's tasks, done over its pages as an agent would do them.

Only for probing the site, never for learning or judging.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from ...clients.pages import Absent, Page
from ...clients.session import Session
from .mailbox import Mailbox, Ticket, mailbox
from .tasks import (
    CALL_ID,
    CALL_SLOT,
    MERGE_ID,
    MERGE_TOPIC,
    REPLY_ID,
    REPLY_PLAN,
    REPLY_STATUS,
    REPLY_TOPIC,
    TRIAGE_ID,
    TRIAGE_PLAN,
    TRIAGE_PRIORITY,
    TRIAGE_TEAM,
    TRIAGE_TOPIC,
    to_answer,
    to_merge,
    to_triage,
)

MERGE: Final = "Merge checked tickets into this one"
ONCE_MORE: Final = 3
"""Attempts at a slow list, or at a form that has to be sent again."""


def solve(session: Session, task_id: str, seed: int) -> None:
    """Do a task with the answer of a seed. Raises Absent if the pages do not hold it, KeyError for an unknown task."""
    SOLUTIONS[task_id](session, mailbox(seed))


def _triage(session: Session, box: Mailbox) -> None:
    page = _open_inbox(session, TRIAGE_TOPIC, plan=TRIAGE_PLAN)
    _take(page, {ticket.number for ticket in to_triage(box)})
    page.choose("Team", TRIAGE_TEAM)
    page.choose("Priority", TRIAGE_PRIORITY)
    session.submit(page, "Assign checked tickets")


def _reply(session: Session, box: Mailbox) -> None:
    page = _open_ticket(session, _open_inbox(session, REPLY_TOPIC, plan=REPLY_PLAN), to_answer(box))
    page.choose("Macro", "Order is late")
    page.choose("Seen by", "Public reply")
    page.choose("Quote the message", "No")
    page.choose("New status", REPLY_STATUS)
    session.submit(page, "Send")


def _merge(session: Session, box: Mailbox) -> None:
    stays, goes = to_merge(box)
    page = _open_ticket(session, _open_inbox(session, MERGE_TOPIC), stays)
    for _ in range(ONCE_MORE):
        page.choose("Sent by", "Same customer")
        page = session.submit(page, "Find similar")
        if _boxes(page):
            break
    for _ in range(ONCE_MORE):
        _take(page, {ticket.number for ticket in goes})
        page = session.submit(page, MERGE)
        if not _boxes(page):
            return


def _call(session: Session, _box: Mailbox) -> None:
    page = session.open(session.open("/").link("Call-backs").path)
    page.choose("Slot", CALL_SLOT)
    session.submit(page, "Ask for a slot")


SOLUTIONS: Final[Mapping[str, Callable[[Session, Mailbox], None]]] = {
    TRIAGE_ID: _triage,
    REPLY_ID: _reply,
    MERGE_ID: _merge,
    CALL_ID: _call,
}


def _open_inbox(session: Session, topic: str, *, plan: str | None = None) -> Page:
    """Inbox with the new tickets of a topic, oldest first."""
    page = session.open(session.open("/").link("Inbox").path)
    page.choose("Topic", topic)
    if plan is not None:
        page.choose("Plan", plan)
    page.choose("Status", "New")
    page.choose("Sort by", "Oldest first")
    return session.submit(page, "Show")


def _open_ticket(session: Session, page: Page, ticket: Ticket) -> Page:
    """Open the page of a listed ticket. Raises Absent."""
    number = re.compile(rf"(?<!\d){ticket.number}(?!\d)")
    for link in page.links():
        if number.search(link.path):
            return session.open(link.path)
    raise Absent("no_such_link", f"ticket {ticket.number}")


def _boxes(page: Page) -> list[Any]:
    return [box for box in page.document.iter("input") if box.get("type") == "checkbox"]


def _take(page: Page, numbers: Collection[int]) -> None:
    """Check the boxes of these tickets and no others. Raises Absent if one is missing."""
    boxes = {int(box.get("value")): box for box in _boxes(page)}
    for number in sorted(numbers):
        if number not in boxes:
            raise Absent("no_such_field", f"ticket {number}")
    for number, box in boxes.items():
        if number in numbers:
            box.set("checked", "checked")
        else:
            box.attrib.pop("checked", None)
