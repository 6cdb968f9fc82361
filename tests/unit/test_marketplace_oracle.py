from __future__ import annotations

from collections.abc import Mapping

import pytest

from agents.envs.sites.marketplace.instance import Harbour
from agents.envs.sites.marketplace.leads import read_lead
from agents.envs.sites.marketplace.tasks import LEAD_ID, LEAD_WANTED, PHONE_ID, PHONE_WANTED, TASKS

RIGHT = {"name": "Alex Morgan", "email": "alex.morgan@example.com", "message": "Is it still available?"}


@pytest.fixture
def harbour() -> Harbour:
    return Harbour(11)


def lead(harbour: Harbour, rank: int = 0, said: Mapping[str, str] = RIGHT) -> None:
    harbour.submit_lead(harbour.catalogue.qualifying_boats(LEAD_WANTED)[rank], **said)


def scored(harbour: Harbour, task_id: str) -> tuple[bool, int]:
    grade = harbour.grade(task_id)
    assert grade.passed == (grade.score_e4 == 10_000)
    assert bool(grade.reasons) != grade.passed
    return grade.passed, grade.score_e4


def test_instructions_hold_every_word_that_is_on_no_label() -> None:
    lead_text, phone_text = (task.instruction for task in TASKS)
    assert all(words in lead_text for words in ("/boats", "Bayliner", "40000", *RIGHT.values()))
    assert all(words in phone_text for words in ("/boats", "Sea Ray", "Florida"))


def test_doing_nothing_scores_nothing(harbour: Harbour) -> None:
    assert [scored(harbour, task.task_id) for task in TASKS] == [(False, 0), (False, 0)]


def test_exactly_the_right_lead_passes(harbour: Harbour) -> None:
    lead(harbour)
    assert scored(harbour, LEAD_ID) == (True, 10_000)
    assert scored(harbour, PHONE_ID) == (False, 0)


@pytest.mark.parametrize("field", ["name", "email", "message"])
def test_a_lead_with_other_words_is_no_hit(harbour: Harbour, field: str) -> None:
    lead(harbour, said={**RIGHT, field: "x@y"})
    assert scored(harbour, LEAD_ID) == (False, 0)
    lead(harbour)
    assert scored(harbour, LEAD_ID) == (False, 6_667)


def test_precision_falls_with_everything_beside_the_hit(harbour: Harbour) -> None:
    lead(harbour)
    lead(harbour)
    assert scored(harbour, LEAD_ID) == (False, 6_667)
    lead(harbour, rank=1)
    assert scored(harbour, LEAD_ID) == (False, 5_000)
    harbour.reveal_phone(harbour.catalogue.boats[0])
    assert scored(harbour, LEAD_ID) == (False, 4_000)
    assert harbour.grade(LEAD_ID).diff["wrong"] == [2, 3, 4]


def test_phone_task(harbour: Harbour) -> None:
    right, other, *_ = harbour.catalogue.qualifying_boats(PHONE_WANTED)
    harbour.reveal_phone(right)
    harbour.reveal_phone(right)
    assert scored(harbour, PHONE_ID) == (True, 10_000)
    harbour.reveal_phone(other)
    assert scored(harbour, PHONE_ID) == (False, 6_667)


def test_reasons_never_name_the_answer(harbour: Harbour) -> None:
    lead(harbour, rank=1)
    grade = harbour.grade(LEAD_ID)
    right = harbour.catalogue.qualifying_boats(LEAD_WANTED)[0]
    assert not any(str(right.id) in reason or right.make in reason for reason in grade.reasons)
    assert grade.diff["expected"] == {"operation": "lead_submitted", "target_id": str(right.id)}


def test_the_fingerprint_is_of_seed_and_mutations_only() -> None:
    one, two, other = Harbour(5), Harbour(5), Harbour(6)
    two.tick()
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()
    lead(one)
    assert one.fingerprint() != two.fingerprint()
    two.tick()
    lead(two)
    assert one.fingerprint() == two.fingerprint()
    assert [mutation.at for mutation in (*one.mutations, *two.mutations)] == [0, 2]
    lead(two, said={**RIGHT, "message": "Hello"})
    assert [mutation.id for mutation in two.mutations] == [1, 2]
    assert two.counts() == {"boats": 600, "leads": 2, "phones": 0, "mutations": 2}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, 2),
        ({"who": "A", "reply_to": "nobody"}, 1),
        ({"who": " ", "reply_to": "a@b"}, 1),
        ({"who": "A", "reply_to": "@"}, 1),
        ({"who": "A", "reply_to": "a@b", "txt": "x" * 5_001}, 1),
        ({"who": "A\x00", "reply_to": "a@b"}, 1),
        ({"who": "Åsa", "reply_to": "a@b", "txt": "one\r\ntwo"}, 0),
    ],
)
def test_leads_are_checked(fields: dict[str, str], wrong: int) -> None:
    read = read_lead(fields)
    assert len(read.errors) == wrong
    assert "\r" not in read.message
