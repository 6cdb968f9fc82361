"""The state of one Lanternpost instance: a seed's mailbox, the noise of an index, and what the agent did to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from ...contract import Mutation
from ..journal import Journal
from ..noise import Noise, Troubles
from ..site import OracleGrade
from .drift import Family, drift_family
from .mailbox import Customer, Mailbox, Ticket, mailbox
from .oracle import ASSIGNED, CALLED, MERGED, REPLIED, End, grade_task
from .replies import Reply
from .stock import Priority, Status, Team
from .tasks import CALLED_PER_MILLE, ODDS


class Desk:
    """One isolated copy of the site. Its clock is the number of pages that it was asked for."""

    def __init__(self, seed: int, repeat: int = 0) -> None:
        self.seed = seed
        self.family: Family = drift_family(seed)
        self.mailbox: Mailbox = mailbox(seed)
        noise = Noise(seed, repeat)
        self.troubles = Troubles(noise, ODDS)
        self._is_granted = noise.happens("lanternpost:callback", CALLED_PER_MILLE)
        self._journal = Journal()
        self._tickets = {ticket.number: ticket for ticket in self.mailbox.tickets}

    @classmethod
    def restore(cls, seed: int, mutations: Sequence[Mutation]) -> Desk:
        """The instance of a seed as these changes left it; its clock stands at the last of them."""
        desk = cls(seed)
        desk._journal = Journal(mutations)
        for each in mutations:
            if each.operation != CALLED:
                number = int(each.target_id)
                desk._tickets[number] = _after(desk._tickets[number], each)
        return desk

    @property
    def mutations(self) -> Sequence[Mutation]:
        """What the agent changed since the reset, oldest first."""
        return self._journal.mutations

    @property
    def tickets(self) -> Sequence[Ticket]:
        """Every ticket as it stands, the oldest first."""
        return tuple(self._tickets.values())

    def ticket(self, number: int) -> Ticket | None:
        """The ticket with this number as it stands."""
        return self._tickets.get(number)

    def customer(self, ticket: Ticket) -> Customer:
        """Who wrote a ticket."""
        return self.mailbox.customers[ticket.customer]

    def tick(self) -> None:
        """Count one page that was asked for."""
        self._journal.tick()

    def assign(self, numbers: Iterable[int], team: Team, priority: Priority | None) -> int:
        """Give tickets to a team, and a priority where one is chosen; how many of them changed."""
        changed = 0
        for number in numbers:
            before = self._tickets[number]
            after = replace(before, team=team, priority=priority or before.priority)
            if after != before:
                changed += 1
                self._tickets[number] = after
                self._record(ASSIGNED, after, {"team": after.team, "priority": after.priority})
        return changed

    def send(self, ticket: Ticket, reply: Reply, text: str) -> None:
        """Send a reply and set the ticket's status; each one that is sent counts."""
        status: Status = reply.status or ticket.status
        self._tickets[ticket.number] = replace(ticket, status=status)
        payload = {"macro": reply.macro, "visibility": reply.visibility, "message": reply.message, "status": status}
        self._record(REPLIED, ticket, {**payload, "text": text})

    def similar(self, ticket: Ticket, *, same_customer: bool) -> tuple[Ticket, ...]:
        """Other new tickets with a ticket's subject that were not merged, the oldest first."""
        return tuple(
            each
            for each in self.tickets
            if (each.subject, each.status, each.merged_into) == (ticket.subject, "New", None)
            and each.number != ticket.number
            and (each.customer == ticket.customer or not same_customer)
        )

    def merge(self, numbers: Iterable[int], into: Ticket) -> None:
        """Merge tickets into one that stays; one that was merged already is left where it is."""
        for number in numbers:
            each = self._tickets[number]
            if each.merged_into is None and number != into.number:
                self._tickets[number] = replace(each, merged_into=into.number)
                self._record(MERGED, each, {"into": str(into.number)})

    def replies(self, ticket: Ticket) -> tuple[str, ...]:
        """What was sent on a ticket, oldest first."""
        sent = (each for each in self.mutations if each.operation == REPLIED)
        return tuple(str(each.payload["text"]) for each in sent if each.target_id == str(ticket.number))

    def ask_callback(self, slot: str) -> None:
        """Ask for a call-back slot, once; whether it is granted was settled at the reset."""
        if self.is_granted is None:
            self._journal.record(CALLED, "slot", slot, {"slot": slot, "granted": self._is_granted})

    @property
    def is_granted(self) -> bool | None:
        """Whether the slot was granted; None before one was asked for."""
        found = (each.payload["granted"] is True for each in self.mutations if each.operation == CALLED)
        return next(found, None)

    def counts(self) -> Mapping[str, int]:
        """How many customers and tickets there are, and how many changes."""
        return {
            "customers": len(self.mailbox.customers),
            "tickets": len(self._tickets),
            "mutations": len(self.mutations),
        }

    def fingerprint(self) -> str:
        """Digest the mailbox, the addresses and the mutations, but neither the clock, the noise nor the id."""
        return self._journal.fingerprint(
            {"seed": self.seed, "mailbox": self.mailbox.digest, "family": self.family.name}
        )

    def grade(self, task_id: str) -> OracleGrade:
        """Judge one of the site's tasks; KeyError if it is none of them."""
        return grade_task(task_id, End(self.mailbox, self._tickets, self.mutations))

    def _record(self, operation: str, ticket: Ticket, payload: Mapping[str, str]) -> None:
        self._journal.record(operation, "ticket", str(ticket.number), dict(payload))


def _after(ticket: Ticket, change: Mutation) -> Ticket:
    """A ticket as a recorded change left it."""
    told = change.payload
    if change.operation == ASSIGNED:
        team, priority = cast("Team", told["team"]), cast("Priority", told["priority"])
        return replace(ticket, team=team, priority=priority)
    if change.operation == REPLIED:
        return replace(ticket, status=cast("Status", told["status"]))
    return replace(ticket, merged_into=int(str(told["into"])))
