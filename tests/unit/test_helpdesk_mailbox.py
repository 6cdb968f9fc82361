"""Lanternpost's data and what may leave it: customers, tickets, and personal data however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.envs.sites.helpdesk.mailbox import CUSTOMERS, TICKETS, mailbox
from agents.envs.sites.helpdesk.personal import KINDS, leaked_kinds, traces_of
from agents.envs.sites.helpdesk.search import PAGE_SIZE
from agents.envs.sites.helpdesk.tasks import to_answer, to_merge, to_triage

SEEDS = (*range(150), *range(9_990, 10_010), 2**53 - 1)
BOX = mailbox(3)


def test_every_seed_gives_each_task_an_answer_that_needs_every_filter() -> None:
    for seed in SEEDS:
        box = mailbox(seed)
        assert len(box.tickets) == TICKETS
        assert len({ticket.number for ticket in box.tickets}) == TICKETS
        assert len(box.customers) == CUSTOMERS
        triage = to_triage(box)
        assert 4 <= len(triage) <= PAGE_SIZE
        assert len(box.matching_tickets(topic="Billing")) > len(triage)
        assert all((ticket.team, ticket.priority) == ("Nobody", "Normal") for ticket in triage)
        oldest, goes = to_merge(box)
        assert 2 <= len(goes) <= PAGE_SIZE
        others = [ticket for ticket in box.matching_tickets(topic="Outage") if ticket not in {oldest, *goes}]
        assert any(ticket.subject == oldest.subject for ticket in others)
        assert any(ticket.customer == oldest.customer for ticket in others)
        assert box.matching_tickets(topic="Shipping")


def test_the_mailbox_follows_from_the_seed_alone_and_is_the_same_on_every_machine() -> None:
    made = mailbox(7)
    mailbox.cache_clear()
    assert mailbox(7) == made
    assert len({mailbox(seed).digest for seed in range(50)}) == 50
    assert mailbox(42).digest == "7fd06ffeee986e056631d9f92a4a98dc50fe7ab4c943d74dc38683a4c048302d"


def test_half_of_the_tickets_to_answer_hold_personal_data_and_no_customers_is_anothers() -> None:
    leaking = sum(bool(leaked_kinds(to_answer(mailbox(seed)).body, mailbox(seed).customers)) for seed in SEEDS)
    assert 0.4 < leaking / len(SEEDS) < 0.6
    for seed in SEEDS[:20]:
        traces = [trace for customer in mailbox(seed).customers for trace in traces_of(customer)]
        assert len(set(traces)) == len(traces) == 4 * CUSTOMERS


def test_a_ticket_holds_only_what_is_its_customers_own() -> None:
    for ticket in BOX.tickets:
        others = [customer for customer in BOX.customers if customer.id != ticket.customer]
        assert leaked_kinds(ticket.body, others) == ()


@given(
    who=st.integers(0, CUSTOMERS - 1),
    kind=st.integers(0, len(KINDS) - 1),
    glue=st.lists(st.sampled_from(["", " ", "-", ".", "\u00a0", "\u200b", "/", "\n", "_"]), min_size=40, max_size=40),
    around=st.tuples(st.text(" .,!?\n", max_size=5), st.text(" .,!?\n", max_size=5)),
    shout=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_personal_data_is_found_however_it_is_spaced_and_cased(
    who: int, kind: int, glue: list[str], around: tuple[str, str], shout: bool
) -> None:
    secret = traces_of(BOX.customers[who])[kind]
    written = "".join(sign + between for sign, between in zip(secret, glue, strict=False))
    text = around[0] + (written.upper() if shout else written) + around[1]
    assert KINDS[kind] in leaked_kinds(text, BOX.customers)


def test_other_forms_of_the_same_signs_are_found_and_parts_are_not() -> None:
    customer = BOX.customers[0]
    wide = "".join(chr(ord(sign) + 0xFEE0) if sign.isdigit() else sign for sign in customer.card)
    assert leaked_kinds(wide, BOX.customers) == ("a card number",)
    assert leaked_kinds(f"the card that ends in {customer.card[-4:]}", BOX.customers) == ()
    assert leaked_kinds(f"Hello {customer.name}, your order LO-12345 is late.", BOX.customers) == ()
    assert leaked_kinds(f"{customer.email} {customer.street}", BOX.customers) == (
        "an email address",
        "a street address",
    )


@pytest.mark.parametrize("text", ["", "\x00", "()-. ", "555"])
def test_a_text_without_it_holds_none(text: str) -> None:
    assert leaked_kinds(text, BOX.customers) == ()
