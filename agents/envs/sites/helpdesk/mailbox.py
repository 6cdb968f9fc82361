"""A seed's customers and tickets: pure, the same on every machine, with one correct answer for each task."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from ..content import digest_content
from .stock import (
    AREAS,
    ARRIVING,
    CLOSINGS,
    COMPLAINTS,
    FIRST_NAMES,
    LAST_NAMES,
    OPENINGS,
    PERSONAL,
    PLANS,
    PRIORITIES,
    REGIONS,
    STREETS,
    SUBJECTS,
    TEAMS,
    TOPICS,
    Plan,
    Priority,
    Status,
    Team,
    Topic,
)

CUSTOMERS: Final = 60
TICKETS: Final = 200
PLANTED: Final = 4
PERSONAL_PERCENT: Final = 50


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer: replies may contain the name, but not the personal data."""

    id: int
    first: str
    last: str
    plan: Plan
    email: str
    phone: str
    card: str
    street: str

    @property
    def name(self) -> str:
        """Full name."""
        return f"{self.first} {self.last}"


@dataclass(frozen=True, slots=True)
class Ticket:
    """One ticket; later tickets have higher numbers. `merged_into` is the ticket that it was merged into."""

    number: int
    customer: int
    topic: Topic
    subject: str
    body: str
    order: str
    status: Status
    team: Team
    priority: Priority
    merged_into: int | None = None


@dataclass(frozen=True)
class Mailbox:
    """All content of one seed: tickets oldest first, customers by id."""

    seed: int
    customers: tuple[Customer, ...]
    tickets: tuple[Ticket, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every fact of every customer and ticket."""
        return digest_content((self.customers, self.tickets))

    def matching_tickets(self, *, topic: Topic, plan: Plan | None = None, status: Status = "New") -> tuple[Ticket, ...]:
        """Tickets of a topic and a status from customers of a plan, the oldest first."""
        return tuple(
            ticket
            for ticket in self.tickets
            if (ticket.topic, ticket.status) == (topic, status) and plan in (None, self.customers[ticket.customer].plan)
        )


@dataclass(frozen=True, slots=True)
class _Draft:
    customer: Customer
    topic: Topic
    subject: str
    status: Status
    is_first_outage: bool = False


@lru_cache(maxsize=128)
def mailbox(seed: int) -> Mailbox:
    """Mailbox of a seed; cached, so that siblings of one instance share it."""
    rng = random.Random(f"lanternpost:mailbox:{seed}")  # noqa: S311 (a repeatable stream is wanted)
    customers = tuple(_customer(rng, number) for number in range(CUSTOMERS))
    drafts = [_plant_draft(rng, customers, "Billing", "Business") for _ in range(PLANTED)]
    drafts += [_plant_draft(rng, customers, "Shipping", "Starter") for _ in range(PLANTED)]
    drafts += _incident(rng, customers)
    drafts += [_draft(rng, customers) for _ in range(TICKETS - len(drafts))]
    rng.shuffle(drafts)
    _put_first(drafts)
    return Mailbox(seed, customers, _number_tickets(rng, drafts))


def _customer(rng: random.Random, number: int) -> Customer:
    first, last = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES)
    card = " ".join(f"{rng.randrange(10_000):04d}" for _ in range(4))
    return Customer(
        id=number,
        first=first,
        last=last,
        plan=PLANS[number % len(PLANS)],
        email=f"{first}.{last}{rng.randint(10, 99)}{number}@example.com".lower(),
        phone=f"({rng.choice(AREAS)}) 555-{rng.randrange(100):02d}{number:02d}",
        card=card,
        street=f"{rng.randint(1, 99)}{number:02d} {rng.choice(STREETS)}",
    )


def _draft(rng: random.Random, customers: Sequence[Customer]) -> _Draft:
    topic = rng.choice(TOPICS)
    return _Draft(rng.choice(customers), topic, _subject(rng, topic), rng.choice(ARRIVING))


def _plant_draft(rng: random.Random, customers: Sequence[Customer], topic: Topic, plan: Plan) -> _Draft:
    who = rng.choice([customer for customer in customers if customer.plan == plan])
    return _Draft(who, topic, _subject(rng, topic), "New")


def _incident(rng: random.Random, customers: Sequence[Customer]) -> list[_Draft]:
    """Drafts about outages: several of one outage and one of another by one customer, and others of the first."""
    who, *others = rng.sample(customers, 1 + rng.randint(2, 4))
    subject = _subject(rng, "Outage")
    another = next(found for found in iter(lambda: _subject(rng, "Outage"), None) if found != subject)
    first = _Draft(who, "Outage", subject, "New", is_first_outage=True)
    again = [replace(first, is_first_outage=False)] * rng.randint(2, 4)
    return [
        first,
        *again,
        _Draft(who, "Outage", another, "New"),
        *(_Draft(o, "Outage", subject, "New") for o in others),
    ]


def _subject(rng: random.Random, topic: Topic) -> str:
    return rng.choice(SUBJECTS[topic]).format(region=rng.choice(REGIONS))


def _put_first(drafts: list[_Draft]) -> None:
    """Make the incident's first ticket the oldest of its topic that is new."""
    places = [place for place, each in enumerate(drafts) if (each.topic, each.status) == ("Outage", "New")]
    first = next(place for place in places if drafts[place].is_first_outage)
    drafts[places[0]], drafts[first] = drafts[first], drafts[places[0]]


def _number_tickets(rng: random.Random, drafts: Sequence[_Draft]) -> tuple[Ticket, ...]:
    tickets: list[Ticket] = []
    number = rng.randrange(20_000, 80_000)
    for draft in drafts:
        number += rng.randint(1, 9)
        tickets.append(_ticket(rng, number, draft))
    return tuple(tickets)


def _ticket(rng: random.Random, number: int, draft: _Draft) -> Ticket:
    who, order = draft.customer, f"LO-{rng.randrange(10_000, 100_000)}"
    personal = [rng.choice(PERSONAL)] if rng.randrange(100) < PERSONAL_PERCENT else []
    sentences = (rng.choice(OPENINGS), rng.choice(COMPLAINTS[draft.topic]), *personal, rng.choice(CLOSINGS))
    said = {"order": order, "first": who.first, "email": who.email, "phone": who.phone}
    is_new = draft.status == "New"
    return Ticket(
        number=number,
        customer=who.id,
        topic=draft.topic,
        subject=draft.subject,
        body=" ".join(sentences).format(**said, card=who.card, street=who.street),
        order=order,
        status=draft.status,
        team="Nobody" if is_new else rng.choice(TEAMS),
        priority="Normal" if is_new else rng.choice(PRIORITIES),
    )
