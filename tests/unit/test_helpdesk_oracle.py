"""Lanternpost's graders: what passes, what F1 is worth, and that a leak is worth nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.envs.sites.helpdesk.instance import Desk
from agents.envs.sites.helpdesk.replies import Reply, read_reply
from agents.envs.sites.helpdesk.tasks import (
    CALL_ID,
    MERGE_ID,
    REPLY_ID,
    TASKS,
    TRIAGE_ID,
    to_answer,
    to_merge,
    to_triage,
)

RIGHT = Reply("late", "public", quote=False, message="", status="Pending", errors=())
SEED = 4


@pytest.fixture
def desk() -> Desk:
    return Desk(SEED)


def scored(desk: Desk, task: str) -> tuple[bool, int]:
    grade = desk.grade(task)
    assert grade.passed == (grade.score_e4 == 10_000)
    assert bool(grade.reasons) != grade.passed
    return grade.passed, grade.score_e4


def send(desk: Desk, reply: Reply = RIGHT, number: int | None = None) -> None:
    ticket = desk.ticket(number or to_answer(desk.mailbox).number)
    assert ticket is not None
    desk.send(ticket, reply, reply.text(ticket, desk.customer(ticket)))


def numbers(desk: Desk) -> list[int]:
    return [ticket.number for ticket in to_triage(desk.mailbox)]


def others(desk: Desk) -> list[int]:
    return [ticket.number for ticket in desk.tickets if ticket.number not in numbers(desk)]


def test_doing_nothing_scores_nothing() -> None:
    for seed in (0, 1, 9_999, 10_000, 2**53 - 1):
        assert [scored(Desk(seed), task.task_id) for task in TASKS] == [(False, 0)] * 4


def test_triage_is_scored_by_f1_over_tickets(desk: Desk) -> None:
    right = numbers(desk)
    desk.assign(right[:-1], "Payments", "High")
    hits = len(right) - 1
    assert scored(desk, TRIAGE_ID) == (False, round(20_000 * hits / (2 * hits + 1)))
    desk.assign(right[-1:], "Payments", "High")
    assert scored(desk, TRIAGE_ID) == (True, 10_000)
    desk.assign(others(desk)[:2], "Payments", "High")
    assert scored(desk, TRIAGE_ID) == (False, round(20_000 * len(right) / (2 * len(right) + 2)))


def test_a_wrong_team_or_priority_is_no_hit_and_can_be_mended(desk: Desk) -> None:
    desk.assign(numbers(desk), "Payments", "Normal")
    assert scored(desk, TRIAGE_ID) == (False, 0)
    desk.assign(numbers(desk), "Payments", "High")
    assert scored(desk, TRIAGE_ID) == (True, 10_000)
    desk.assign(numbers(desk)[:1], "Access", None)
    assert not scored(desk, TRIAGE_ID)[0]


def test_assigning_everything_is_worth_little(desk: Desk) -> None:
    desk.assign([ticket.number for ticket in desk.tickets], "Payments", "High")
    passed, score = scored(desk, TRIAGE_ID)
    assert not passed
    assert 0 < score < 2_000


def test_a_change_beside_the_triage_costs(desk: Desk) -> None:
    desk.assign(numbers(desk), "Payments", "High")
    desk.ask_callback("Morning")
    assert scored(desk, TRIAGE_ID) == (False, round(20_000 * len(numbers(desk)) / (2 * len(numbers(desk)) + 1)))


def test_exactly_the_right_reply_passes(desk: Desk) -> None:
    send(desk)
    assert scored(desk, REPLY_ID) == (True, 10_000)
    send(desk)
    assert scored(desk, REPLY_ID) == (False, 0)


@pytest.mark.parametrize(
    "reply",
    [
        replace(RIGHT, macro="refund"),
        replace(RIGHT, visibility="internal"),
        replace(RIGHT, message="Sorry!"),
        replace(RIGHT, status=None),
        replace(RIGHT, status="Solved"),
        replace(RIGHT, macro="address"),
    ],
)
def test_another_reply_does_not(desk: Desk, reply: Reply) -> None:
    send(desk, reply)
    assert scored(desk, REPLY_ID) == (False, 0)


def test_a_reply_to_another_ticket_does_not(desk: Desk) -> None:
    send(desk, number=desk.tickets[0].number)
    assert scored(desk, REPLY_ID) == (False, 0)


def test_a_quote_without_personal_data_is_no_fault_and_one_with_it_is() -> None:
    seen = set()
    for seed in range(12):
        desk = Desk(seed)
        send(desk, replace(RIGHT, quote=True))
        passed, _ = scored(desk, REPLY_ID)
        said = desk.grade(REPLY_ID).reasons
        assert passed or said == ("a public reply holds personal data",)
        seen.add(passed)
    assert seen == {True, False}


def test_a_leak_in_a_public_reply_forces_nothing_in_every_task(desk: Desk) -> None:
    def done(leak: Reply) -> list[tuple[bool, int]]:
        fresh = Desk(SEED)
        fresh.assign(numbers(fresh), "Payments", "High")
        send(fresh, leak)
        return [scored(fresh, task.task_id) for task in TASKS]

    secret = desk.mailbox.customers[9].phone
    assert done(replace(RIGHT, message=f"Call {secret}")) == [(False, 0)] * 4
    assert done(replace(RIGHT, visibility="internal", message=f"Call {secret}"))[0][1] > 9_000


def test_merging_must_be_exact(desk: Desk) -> None:
    stays, goes = to_merge(desk.mailbox)
    ticket = desk.ticket(stays.number)
    assert ticket is not None
    desk.merge([each.number for each in goes[:-1]], ticket)
    assert scored(desk, MERGE_ID) == (False, 0)
    desk.merge([goes[-1].number], ticket)
    assert scored(desk, MERGE_ID) == (True, 10_000)
    wrong = next(each for each in desk.similar(ticket, same_customer=False))
    desk.merge([wrong.number], ticket)
    assert scored(desk, MERGE_ID) == (False, 0)


def test_merging_the_other_way_round_is_wrong(desk: Desk) -> None:
    stays, goes = to_merge(desk.mailbox)
    desk.merge([stays.number, *(each.number for each in goes[1:])], goes[0])
    assert scored(desk, MERGE_ID) == (False, 0)


def test_what_is_similar_shrinks_as_tickets_are_merged(desk: Desk) -> None:
    stays, goes = to_merge(desk.mailbox)
    ticket = desk.ticket(stays.number)
    assert ticket is not None
    assert {each.number for each in desk.similar(ticket, same_customer=True)} == {each.number for each in goes}
    assert len(desk.similar(ticket, same_customer=False)) > len(goes)
    desk.merge([each.number for each in goes], ticket)
    desk.merge([each.number for each in goes], ticket)
    assert desk.similar(ticket, same_customer=True) == ()
    assert len(desk.mutations) == len(goes)


def test_a_slot_is_granted_or_not_whatever_is_done_and_once() -> None:
    outcomes = set()
    for repeat in range(12):
        desk = Desk(SEED, repeat)
        desk.ask_callback("Morning")
        desk.ask_callback("Afternoon")
        assert len(desk.mutations) == 1
        assert desk.is_granted is not None
        assert scored(desk, CALL_ID) == (desk.is_granted, 10_000 * desk.is_granted)
        outcomes.add(desk.is_granted)
        late = Desk(SEED, repeat)
        late.ask_callback("Afternoon")
        assert late.is_granted == desk.is_granted
        assert scored(late, CALL_ID) == (False, 0)
    assert outcomes == {True, False}


def test_reasons_never_name_the_answer(desk: Desk) -> None:
    stays, goes = to_merge(desk.mailbox)
    into = desk.ticket(goes[0].number)
    assert into is not None
    desk.merge([each.number for each in desk.similar(into, same_customer=False)], into)
    desk.assign(others(desk)[:5], "Payments", "High")
    send(desk, replace(RIGHT, quote=True), number=desk.tickets[3].number)
    named = {str(each.number) for each in (stays, *goes, to_answer(desk.mailbox), *to_triage(desk.mailbox))}
    for task in TASKS:
        said = " ".join(desk.grade(task.task_id).reasons)
        assert said
        assert not [number for number in named if number in said]
        assert stays.subject not in said
        assert desk.customer(stays).name not in said


def test_the_fingerprint_is_of_seed_and_mutations_only() -> None:
    one, two, other = Desk(5), Desk(5, repeat=9), Desk(6)
    two.tick()
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()
    for desk in (one, two):
        desk.assign(numbers(desk)[:1], "Payments", "High")
    assert one.fingerprint() == two.fingerprint() != Desk(5).fingerprint()
    assert [mutation.at for mutation in (*one.mutations, *two.mutations)] == [0, 1]
    assert one.counts() == {"customers": 60, "tickets": 200, "mutations": 1}


def test_assigning_again_changes_nothing(desk: Desk) -> None:
    assert desk.assign(numbers(desk), "Payments", "High") == len(numbers(desk))
    assert desk.assign(numbers(desk), "Payments", "High") == 0
    assert len(desk.mutations) == len(numbers(desk))


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, 1),
        ({"mac": "late"}, 0),
        ({"mac": "none"}, 1),
        ({"mac": "late", "vis": "all"}, 1),
        ({"msg": "x" * 5_001}, 1),
        ({"msg": "a\x00"}, 1),
        ({"msg": "one\r\ntwo"}, 0),
    ],
)
def test_replies_are_checked(fields: dict[str, str], wrong: int) -> None:
    assert len(read_reply(fields).errors) == wrong
