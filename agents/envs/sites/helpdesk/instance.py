"""State of one Lanternpost instance: its seed's mailbox, its noise, and the agent's changes."""

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


class Desk(Journal):
    """One isolated copy of the site. Its clock counts page requests."""

    def __init__(self, seed: int, repeat: int = 0, mutations: Sequence[Mutation] = ()) -> None:
        super().__init__(mutations)
        self.seed = seed
        self.family: Family = drift_family(seed)
        self.mailbox: Mailbox = mailbox(seed)
        noise = Noise(seed, repeat)
        self.troubles = Troubles(noise, ODDS)
        self._is_granted = noise.happens("lanternpost:callback", CALLED_PER_MILLE)
        self._tickets = {ticket.number: ticket for ticket in self.mailbox.tickets}

    @classmethod
    def restore(cls, seed: int, mutations: Sequence[Mutation]) -> Desk:
        """Rebuild an instance from its seed and its changes; its clock shows the time of the last change."""
        desk = cls(seed, mutations=mutations)
        for each in mutations:
            if each.operation != CALLED:
                number = int(each.target_id)
                desk._tickets[number] = _after(desk._tickets[number], each)
        return desk

    @property
    def tickets(self) -> Sequence[Ticket]:
        """All tickets in their current state, oldest first."""
        return tuple(self._tickets.values())

    def ticket(self, number: int) -> Ticket | None:
        """Current state of the ticket with this number; None if there is none."""
        return self._tickets.get(number)

    def customer(self, ticket: Ticket) -> Customer:
        """Customer who sent a ticket."""
        return self.mailbox.customers[ticket.customer]

    def assign(self, numbers: Iterable[int], team: Team, priority: Priority | None) -> int:
        """Assign tickets to a team, with a priority if one is given. Returns the number of changed tickets."""
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
        """Send a reply and set the ticket's status; repeated replies are all recorded."""
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
        """Merge tickets into another one; tickets that were merged before are skipped."""
        for number in numbers:
            each = self._tickets[number]
            if each.merged_into is None and number != into.number:
                self._tickets[number] = replace(each, merged_into=into.number)
                self._record(MERGED, each, {"into": str(into.number)})

    def replies(self, ticket: Ticket) -> tuple[str, ...]:
        """Texts of the replies sent on a ticket, oldest first."""
        sent = (each for each in self.mutations if each.operation == REPLIED)
        return tuple(str(each.payload["text"]) for each in sent if each.target_id == str(ticket.number))

    def ask_callback(self, slot: str) -> None:
        """Request a call-back slot, once; whether it is granted was drawn at the reset."""
        if self.is_granted is None:
            self.record(CALLED, "slot", slot, {"slot": slot, "granted": self._is_granted})

    @property
    def is_granted(self) -> bool | None:
        """True if the slot was granted; None before the request."""
        found = (each.payload["granted"] is True for each in self.mutations if each.operation == CALLED)
        return next(found, None)

    def counts(self) -> Mapping[str, int]:
        """Number of customers, tickets and changes."""
        return {
            "customers": len(self.mailbox.customers),
            "tickets": len(self._tickets),
            "mutations": len(self.mutations),
        }

    def fingerprint(self) -> str:
        """Digest of the mailbox, the addresses and the mutations, without the clock, the noise and the id."""
        return self.digest({"seed": self.seed, "mailbox": self.mailbox.digest, "family": self.family.name})

    def grade(self, task_id: str) -> OracleGrade:
        """Grade one of the site's tasks. Raises KeyError for an unknown one."""
        return grade_task(task_id, End(self.mailbox, self._tickets, self.mutations))

    def _record(self, operation: str, ticket: Ticket, payload: Mapping[str, str]) -> None:
        self.record(operation, "ticket", str(ticket.number), dict(payload))


def _after(ticket: Ticket, change: Mutation) -> Ticket:
    """A ticket after a recorded change."""
    told = change.payload
    if change.operation == ASSIGNED:
        team, priority = cast("Team", told["team"]), cast("Priority", told["priority"])
        return replace(ticket, team=team, priority=priority)
    if change.operation == REPLIED:
        return replace(ticket, status=cast("Status", told["status"]))
    return replace(ticket, merged_into=int(str(told["into"])))
