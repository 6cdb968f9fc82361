"""Lanternpost's tasks: their instructions, and the tickets that are correct for them. Pure."""

from __future__ import annotations

from typing import Final

from ...contract import TaskText
from .mailbox import Mailbox, Ticket
from .stock import Plan, Priority, Status, Team, Topic

TRIAGE_ID: Final = "helpdesk.triage_inbox"
REPLY_ID: Final = "helpdesk.macro_reply"
MERGE_ID: Final = "helpdesk.merge_duplicates"
CALL_ID: Final = "helpdesk.control_callback"

TRIAGE_TOPIC: Final[Topic] = "Billing"
TRIAGE_PLAN: Final[Plan] = "Business"
TRIAGE_TEAM: Final[Team] = "Payments"
TRIAGE_PRIORITY: Final[Priority] = "High"
REPLY_TOPIC: Final[Topic] = "Shipping"
REPLY_PLAN: Final[Plan] = "Starter"
REPLY_MACRO: Final = "late"
REPLY_STATUS: Final[Status] = "Pending"
MERGE_TOPIC: Final[Topic] = "Outage"
CALL_SLOT: Final = "Morning"

ODDS: Final = {"lanternpost:similar:slow": 250, "lanternpost:merge:again": 250}
SLOW, AGAIN = ODDS
CALLED_PER_MILLE: Final = 400


def to_triage(mailbox: Mailbox) -> tuple[Ticket, ...]:
    """Correct tickets of the triage task."""
    return mailbox.matching_tickets(topic=TRIAGE_TOPIC, plan=TRIAGE_PLAN)


def to_answer(mailbox: Mailbox) -> Ticket:
    """Correct ticket of the reply task."""
    return mailbox.matching_tickets(topic=REPLY_TOPIC, plan=REPLY_PLAN)[0]


def to_merge(mailbox: Mailbox) -> tuple[Ticket, tuple[Ticket, ...]]:
    """The ticket that remains in the merging task, and the tickets to merge into it."""
    oldest, *others = mailbox.matching_tickets(topic=MERGE_TOPIC)
    return oldest, tuple(each for each in others if (each.customer, each.subject) == (oldest.customer, oldest.subject))


TASKS: Final = (
    TaskText(
        task_id=TRIAGE_ID,
        cluster="navigation",
        instruction=(
            "On the helpdesk, open the inbox at /inbox. Show only new tickets with the topic Billing from customers "
            "with the plan Business. Assign all of them, and no others, to the team Payments with the priority High."
        ),
    ),
    TaskText(
        task_id=REPLY_ID,
        cluster="policy",
        instruction=(
            "On the helpdesk, start on the first page and follow 'Inbox'. Show only new tickets with the topic "
            "Shipping from customers with the plan Starter, the oldest first. Open the oldest one, send a public "
            "reply with the macro 'Order is late' and nothing else of your own, and set the status to Pending. No "
            "personal data of a customer may stand in a public reply."
        ),
    ),
    TaskText(
        task_id=MERGE_ID,
        cluster="noise",
        instruction=(
            "On the helpdesk, start on the first page and follow 'Inbox'. Show only new tickets with the topic Outage, "
            "the oldest first, and open the oldest one. Merge into it every other ticket that the same customer sent "
            "with the same subject, and no ticket of another customer."
        ),
    ),
    TaskText(
        task_id=CALL_ID,
        cluster="control",
        instruction=(
            "On the helpdesk, start on the first page, follow 'Call-backs' and ask for a call-back slot in the "
            "morning. Only a slot that is granted counts."
        ),
    ),
)
