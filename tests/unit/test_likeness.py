"""Matching by meaning in integers: what is alike, how it is blended with words, and what a plan is given by it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.advice import worth_telling
from agents.learning.occasions import OccasionPiece
from agents.learning.retrieval import retrieve
from agents.learning.similarity import Embeddings, blend_scores, cosine_micro
from eventlog.events import PreferTarget, Step
from tests.unit.test_agent_samples import template
from tests.unit.test_retrieval import ENGINE, OPEN, PHONE, PLAN, SITE, lesson

WORDS = ("engine", "motor", "machinery", "phone", "number", "look", "for", "the")
NUMBERS = (100, 10, 90, 20, 100, 5, 0, 100, 10, 90, 3, 3, 2, 2, 1, 1)
VECTORS = st.lists(st.integers(-32_767, 32_767), min_size=4, max_size=4)
MODEL = Embeddings("e" * 64, 2, NUMBERS, lambda text: [WORDS.index(word) for word in text.split() if word in WORDS])
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
STEPS = st.builds(Step, type=st.just("click"), intent=TEXTS, label=st.sampled_from(["Engine log", "phone number"]))
LESSONS = st.lists(
    st.builds(
        lambda step, text, name, rank: replace(lesson(at=step, text=text, name=name, rank=rank), embeddings=MODEL),
        STEPS,
        TEXTS,
        st.sampled_from("abcdef"),
        st.sampled_from([0, 500_000]),
    ),
    max_size=6,
    unique_by=lambda each: each.piece,
)
MOTOR = Step(type="click", intent="motor", label="Engine log")


@given(VECTORS, VECTORS)
def test_a_cosine_is_that_of_floats_to_a_few_millionths_and_never_below_zero(one: list[int], other: list[int]) -> None:
    length = math.hypot(*one) * math.hypot(*other)
    expected = 0 if length == 0 else max(0.0, sum(map(math.prod, zip(one, other, strict=True))) / length)
    found = cosine_micro(one, other)
    # The integer root of a product of squares is short by less than one.
    assert abs(found - 1_000_000 * expected) <= 2 + 1_000_000 / max(1, length)
    assert found == cosine_micro(other, one)
    assert 0 <= found <= 1_000_000


@given(TEXTS, TEXTS, st.randoms())
def test_a_text_is_the_sum_of_its_tokens_whatever_their_order(one: str, other: str, random: st.DataObject) -> None:
    words = one.split()
    random.shuffle(words)  # type: ignore[attr-defined]
    assert MODEL.vector(" ".join(words)) == MODEL.vector(one)
    together = MODEL.vector(f"{one} {other}")
    assert together == tuple(a + b for a, b in zip(MODEL.vector(one), MODEL.vector(other), strict=True))
    assert MODEL.likeness(f"{one} {one}", one) == MODEL.likeness(one, one)


def test_a_text_without_a_known_token_is_like_nothing() -> None:
    assert MODEL.vector("harbour") == (0, 0)
    assert (MODEL.likeness("harbour", "engine"), MODEL.likeness("", "")) == (0, 0)


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.integers(0, 10**6))
def test_a_blend_grows_with_words_and_with_meaning(shared: int, most: int, likeness: int) -> None:
    assert blend_scores(most, most, likeness) == 1_000_000 + likeness
    assert blend_scores(0, 0, likeness) == likeness
    assert (
        blend_scores(shared, most, likeness)
        <= blend_scores(shared + 1, most, likeness)
        <= blend_scores(shared + 1, most, likeness + 1)
    )


@given(st.lists(STEPS, min_size=1, max_size=4), TEXTS, LESSONS, st.randoms())
def test_the_order_of_lessons_and_having_one_twice_change_nothing(
    plan: list[Step], task: str, lessons: list[OccasionPiece], random: st.DataObject
) -> None:
    shuffled = [*lessons, *lessons]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert retrieve(tuple(plan), task, SITE, shuffled) == retrieve(tuple(plan), task, SITE, lessons)


def test_equal_lessons_are_in_order_of_id() -> None:
    tied = [replace(lesson(at=MOTOR, name=name), embeddings=MODEL) for name in ("b", "a", "c")]
    plan = (OPEN, Step(type="click", intent="engine", label="Engine log"))
    assert [piece.piece for piece in retrieve(plan, "", SITE, tied)] == ["a"]


def test_a_hint_that_shares_no_word_with_a_step_is_found_by_meaning_alone() -> None:
    plan = (OPEN, Step(type="click", intent="machinery", label="Start"))
    hint, other = lesson(at=MOTOR), lesson(PreferTarget(label="Call"), at=Step(type="click", intent="phone"))
    assert retrieve(plan, "", SITE, [hint, other]) == ()
    found = retrieve(plan, "", SITE, [replace(each, embeddings=MODEL) for each in (hint, other)])
    assert [piece.piece for piece in found] == [hint.piece]


def test_of_two_hints_that_share_no_more_words_the_one_that_means_the_step_goes_first() -> None:
    step = Step(type="click", intent="look for the engine", label="Start")
    near, far = lesson(at=ENGINE, name="z", text="motor"), lesson(at=ENGINE, name="a", text="number")
    plan = (OPEN, step)
    assert [piece.piece for piece in retrieve(plan, "", SITE, [near, far])] == ["a"]
    with_model = [replace(each, embeddings=MODEL) for each in (near, far)]
    assert [piece.piece for piece in retrieve(plan, "", SITE, with_model)] == ["z"]


@pytest.mark.parametrize("plan", [PLAN, (OPEN, PHONE)])
def test_another_page_or_type_is_not_like_an_occasion_whatever_is_meant(plan: tuple[Step, ...]) -> None:
    elsewhere = replace(lesson(at=Step(type="select_option", intent="look for the engine")), embeddings=MODEL)
    other_site = replace(lesson(at=ENGINE, environment="helpdesk"), embeddings=MODEL)
    assert retrieve(plan, "", SITE, [elsewhere, other_site]) == ()


def test_a_model_is_no_part_of_what_a_lesson_is() -> None:
    assert replace(lesson(), embeddings=MODEL) == lesson()


def told(instruction: str, *pieces: OccasionPiece) -> list[str]:
    task = template().model_copy(update={"instruction": instruction})
    return [each.piece for each in worth_telling(task, SITE, pieces)]


def test_a_model_is_told_what_means_the_same_in_other_words() -> None:
    motor = lesson(at=Step(type="click", intent="motor", label="x"), text="machinery", name="motor")
    phone = lesson(at=Step(type="click", intent="phone", label="x"), text="number", name="phone")
    meant = [replace(each, embeddings=MODEL) for each in (motor, phone)]
    assert told("the engine", motor, phone) == []
    assert told("the engine", *meant) == told("the engine", *reversed(meant)) == ["motor"]
    assert told("harbour", *meant) == []
    said = replace(phone, piece="said", text="the engine", embeddings=MODEL)
    assert told("the engine", *meant, said) == ["said", "motor"]
    assert told("the engine", motor, replace(said, embeddings=None)) == ["said"]
