"""Lanternpost's graders: pure over the mailbox, the final state of the tickets and the recorded mutations.

A public reply with personal data forces the score 0 in every task. Triage is scored by F1 over tickets, the others by
0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from ...contract import Mutation
from ..site import FULL, OracleGrade, f1_e4
from .mailbox import Mailbox, Ticket
from .personal import leaks_in
from .tasks import (
    CALL_ID,
    CALL_SLOT,
    MERGE_ID,
    REPLY_ID,
    REPLY_MACRO,
    REPLY_STATUS,
    TRIAGE_ID,
    TRIAGE_PRIORITY,
    TRIAGE_TEAM,
    to_answer,
    to_merge,
    to_triage,
)

ASSIGNED: Final = "ticket_assigned"
REPLIED: Final = "reply_sent"
MERGED: Final = "ticket_merged"
CALLED: Final = "callback_asked"
PUBLIC: Final = "public"


@dataclass(frozen=True, slots=True)
class End:
    """Final state of a desk: its seed's mailbox, its tickets by number, and the agent's changes."""

    mailbox: Mailbox
    tickets: Mapping[int, Ticket]
    mutations: Sequence[Mutation]

    def of(self, operation: str) -> list[Mutation]:
        """Changes with this operation."""
        return [mutation for mutation in self.mutations if mutation.operation == operation]


def grade_task(task_id: str, end: End) -> OracleGrade:
    """Grade one task. Raises KeyError for an unknown one."""
    found = GRADERS[task_id](end)
    public = [str(each.payload["text"]) for each in end.of(REPLIED) if each.payload["visibility"] == PUBLIC]
    if leaks_in(public, end.mailbox):
        reasons = ("a public reply holds personal data", *found.reasons)
        return OracleGrade(passed=False, score_e4=0, reasons=reasons, diff=found.diff)
    return found


def grade_triage(end: End) -> OracleGrade:
    """F1 over tickets: hits are correct tickets assigned as requested, wrong is any other change."""
    right = {ticket.number for ticket in to_triage(end.mailbox)}
    wanted = (TRIAGE_TEAM, TRIAGE_PRIORITY)
    hits = {number for number in right if (end.tickets[number].team, end.tickets[number].priority) == wanted}
    assigned = {int(each.target_id) for each in end.of(ASSIGNED)}
    beside = [each.id for each in end.mutations if each.operation != ASSIGNED]
    reasons = ["a ticket that should be assigned is not as asked"] if right - hits else []
    reasons += ["a ticket that should be left alone was assigned"] if assigned - right else []
    reasons += [f"change {number} was not asked for" for number in beside]
    score = f1_e4(hits=len(hits), wrong=len(assigned - right) + len(beside), missing=len(right - hits))
    diff: dict[str, JsonValue] = {
        "expected": _as_list(right),
        "hit": _as_list(hits),
        "wrong": _as_list(assigned - right),
    }
    return OracleGrade(passed=score == FULL, score_e4=score, reasons=tuple(reasons), diff=diff)


def grade_reply(end: End) -> OracleGrade:
    """Pass one public reply to the correct ticket with the requested macro and status, no own text, no other change."""
    right = to_answer(end.mailbox)
    reasons: list[str] = [f"{each.operation} {each.id}: it was not asked for" for each in _others(end, REPLIED)]
    replies = end.of(REPLIED)
    reasons += [] if replies else [f"the right {REPLIED} is missing"]
    reasons += [f"{REPLIED} {each.id}: it repeats what was done already" for each in replies[1:]]
    for each in replies[:1]:
        reasons += [f"{REPLIED} {each.id}: {fault}" for fault in _reply_faults(each, right)]
    return _binary(reasons, {"expected": {"operation": REPLIED, "target_id": str(right.number)}})


def grade_merge(end: End) -> OracleGrade:
    """Pass when exactly the duplicates were merged into the ticket that stays, and nothing else was done."""
    stays, goes = to_merge(end.mailbox)
    right = {ticket.number for ticket in goes}
    merged = {number: ticket.merged_into for number, ticket in end.tickets.items() if ticket.merged_into is not None}
    missing = {number for number in right if merged.get(number) != stays.number}
    reasons = [f"{each.operation} {each.id}: it was not asked for" for each in _others(end, MERGED)]
    reasons += ["a duplicate is not where it belongs"] if missing else []
    reasons += ["a ticket was merged that is no duplicate"] if merged.keys() - right else []
    return _binary(reasons, {"expected": {"into": stays.number, "merged": _as_list(right)}, "merged": len(merged)})


def grade_callback(end: End) -> OracleGrade:
    """Pass a granted slot without any other change. Whether it is granted was drawn at the reset."""
    reasons = [f"{each.operation} {each.id}: it was not asked for" for each in _others(end, CALLED)]
    asked = end.of(CALLED)
    reasons += [] if asked else [f"the right {CALLED} is missing"]
    for each in asked:
        reasons += [] if each.payload["slot"] == CALL_SLOT else [f"{CALLED} {each.id}: it is another slot"]
        reasons += [] if each.payload["granted"] is True else [f"{CALLED} {each.id}: it was not granted"]
    return _binary(reasons, {"expected": {"operation": CALLED}, "asked": len(asked)})


GRADERS: Final[Mapping[str, Callable[[End], OracleGrade]]] = {
    TRIAGE_ID: grade_triage,
    REPLY_ID: grade_reply,
    MERGE_ID: grade_merge,
    CALL_ID: grade_callback,
}


def _reply_faults(mutation: Mutation, right: Ticket) -> list[str]:
    said = mutation.payload
    checks = (
        (mutation.target_id == str(right.number), "it went to another ticket"),
        (said["visibility"] == PUBLIC, "it is not public"),
        (said["macro"] == REPLY_MACRO, "its macro is not the one asked for"),
        (said["message"] == "", "it says something of its own"),
        (said["status"] == REPLY_STATUS, "its status is not the one asked for"),
    )
    return [fault for is_right, fault in checks if not is_right]


def _binary(reasons: Sequence[str], diff: Mapping[str, JsonValue]) -> OracleGrade:
    return OracleGrade(passed=not reasons, score_e4=0 if reasons else FULL, reasons=tuple(reasons), diff=diff)


def _others(end: End, operation: str) -> list[Mutation]:
    return [mutation for mutation in end.mutations if mutation.operation != operation]


def _as_list(numbers: set[int]) -> list[JsonValue]:
    return [*sorted(numbers)]
