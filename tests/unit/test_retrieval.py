from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.learning.occasions import OccasionPiece, lesson_id, occasion_at, pages_agree, planned_page, text_and_change
from agents.learning.piece_content import content_bytes
from agents.learning.retrieval import overlay_memory, retrieve
from agents.plans import Piece, Plan, anchor_of
from benchmarks.shipped import PLANS
from eventlog.events import (
    Change,
    EditStep,
    FollowLink,
    InsertSteps,
    Occasion,
    PieceKind,
    PreferTarget,
    ReplaceUrl,
    Step,
)

SITE = "marketplace"
START = Step(type="navigate", intent="start on the first page", url="/")
OPEN = Step(type="navigate", intent="open the boats page", url="/boats")
FILL = Step(type="fill_field", intent="limit the price", label="Maximum price", value="9")
ENGINE = Step(type="click", intent="look for the engine", label="Engine log")
ASK = Step(type="submit", intent="ask for a contact", label="Start a contact request")
PHONE = Step(type="submit", intent="show its phone number", label="Show phone number")
PLAN: Plan = (OPEN, FILL, ENGINE, PHONE)
HAUL_OUT = PreferTarget(label="Haul-out report")


def lesson(
    change: Change = HAUL_OUT,
    *,
    at: Step = ENGINE,
    kind: PieceKind = "hint",
    page: str = "",
    name: str = "",
    text: str = "",
    title: str = "",
    rank: int = 500_000,
    wins: int = 0,
    environment: str = SITE,
) -> OccasionPiece:
    occasion = Occasion(environment=environment, type=at.type, intent=at.intent, page=page)
    return OccasionPiece(name or lesson_id(kind, occasion, change), kind, occasion, change, text, title, wins, rank)


def found(*lessons: OccasionPiece, plan: Plan = PLAN, instruction: str = "") -> list[tuple[str, Step]]:
    by_anchor = {anchor_of(step): step for step in plan}
    return [(piece.piece, by_anchor[piece.anchor]) for piece in retrieve(plan, instruction, SITE, lessons)]


STEPS = st.builds(
    Step,
    type=st.sampled_from(["navigate", "click", "fill_field", "submit"]),
    intent=st.text("ab the", max_size=8),
    url=st.sampled_from(["/", "/boats", "/boats/12"]),
    label=st.sampled_from(["Search", "Boats", "Engine log"]),
)


@given(st.lists(STEPS, min_size=1, max_size=6), st.data())
def test_what_was_recorded_at_an_occasion_is_found_at_that_occasion(plan: list[Step], data: st.DataObject) -> None:
    steps = tuple(plan)
    place = data.draw(st.integers(0, len(plan) - 1))
    occasion = occasion_at(SITE, steps, place)
    change = EditStep(step=Step(type="press_key", intent="another", value="Enter"))
    recorded = OccasionPiece(lesson_id("hint", occasion, change), "hint", occasion, change, "", "", 0, 0)
    assert [piece.piece for piece in retrieve(steps, "any task", SITE, [recorded])] == [recorded.piece]


@given(st.permutations([OPEN, FILL, ENGINE, PHONE]), st.permutations(range(4)), st.text("ab", max_size=3))
def test_the_order_of_lessons_does_not_matter_and_each_step_takes_one_of_a_kind(
    plan: list[Step], order: list[int], instruction: str
) -> None:
    lessons = [lesson(PreferTarget(label=f"link {n}"), rank=n // 2) for n in range(4)]
    shuffled = [lessons[index] for index in order]
    found_ = retrieve(tuple(plan), instruction, SITE, shuffled)
    assert found_ == retrieve(tuple(plan), instruction, SITE, lessons)
    assert len(found_) == 1


def test_a_lesson_of_another_site_type_or_topic_is_not_found() -> None:
    assert found(lesson()) == [(lesson().piece, ENGINE)]
    assert found(lesson(environment="helpdesk")) == []
    assert found(lesson(at=ENGINE.model_copy(update={"type": "submit"}))) == []
    assert found(lesson(at=ENGINE.model_copy(update={"intent": "read about prices"}))) == []


def test_a_step_that_says_half_of_it_is_like_it_where_the_pages_agree() -> None:
    like = ENGINE.model_copy(update={"intent": "look at the papers"})
    assert [step for _, step in found(lesson(at=like))] == [ENGINE]
    on_page = (OPEN, ENGINE)
    assert found(lesson(at=like, page="/boats"), plan=on_page) != []
    assert found(lesson(at=like, page="/harbours"), plan=on_page) == []
    assert found(lesson(at=like, page="/harbours"), plan=(PHONE, ENGINE)) != []
    assert found(lesson(page="/harbours"), plan=on_page) != []  # it says the very same: addresses drift


def test_of_two_that_fit_alike_the_words_decide_then_the_rank_then_the_id() -> None:
    said = lesson(PreferTarget(label="A"), text="the engine log", rank=0)
    ranks = lesson(PreferTarget(label="B"), text="boats", rank=900_000)
    assert [name for name, _ in found(said, ranks)] == [said.piece]
    low, high = (lesson(PreferTarget(label=str(rank)), rank=rank) for rank in (1, 2))
    assert [name for name, _ in found(low, high)] == [high.piece]
    one, two = lesson(PreferTarget(label="1"), name="hint-b"), lesson(PreferTarget(label="2"), name="hint-a")
    assert [name for name, _ in found(one, two)] == ["hint-a"]


def test_what_was_recorded_at_this_very_step_goes_before_what_shares_more_words_with_it() -> None:
    like = ENGINE.model_copy(update={"intent": "look for it"})
    wordy = lesson(PreferTarget(label="A"), at=like, text="look for the engine: the engine log", rank=900_000, wins=9)
    own = lesson(PreferTarget(label="B"), rank=0)
    assert [name for name, _ in found(wordy)] == [wordy.piece]
    assert [name for name, _ in found(wordy, own)] == [own.piece]


def test_the_task_decides_between_two_that_fit_a_step_alike() -> None:
    bayliner = lesson(PreferTarget(label="x"), text="for a Bayliner", name="hint-b")
    cobalt = lesson(PreferTarget(label="y"), text="for a Cobalt", name="hint-a")
    assert [name for name, _ in found(bayliner, cobalt, instruction="the cheapest Bayliner")] == ["hint-b"]


def test_steps_are_put_in_before_the_first_like_step_and_never_twice() -> None:
    put_in = lesson(InsertSteps(steps=(ASK,)), at=PHONE, kind="exemplar")
    later = PHONE.model_copy(update={"label": "Show phone number again"})
    plan = overlay_memory((OPEN, PHONE, later), "", SITE, [put_in]).plan
    assert plan == (OPEN, ASK, PHONE, later)
    assert overlay_memory(plan, "", SITE, [put_in]).plan == plan


def test_steps_are_put_in_beside_the_step_that_says_the_very_same_rather_than_an_earlier_like_one() -> None:
    put_in = lesson(InsertSteps(steps=(ASK,)), at=PHONE, kind="exemplar")
    like = PHONE.model_copy(update={"intent": "show its phone"})
    assert overlay_memory((OPEN, like), "", SITE, [put_in]).plan == (OPEN, ASK, like)
    assert overlay_memory((OPEN, like, PHONE), "", SITE, [put_in]).plan == (OPEN, like, ASK, PHONE)


def test_a_snippet_stands_in_for_a_step_of_its_topic() -> None:
    topic = START.model_copy(update={"intent": "boats for sale"})
    snippet = lesson(FollowLink(page="/", label="Boats for sale"), at=topic, kind="snippet", title="Boats for sale")
    plan = overlay_memory(PLANS["marketplace.phone_reveal"], "", SITE, [snippet]).plan
    assert [(step.type, step.url or step.label) for step in plan[:2]] == [
        ("navigate", "/"),
        ("click", "Boats for sale"),
    ]
    without = overlay_memory(PLANS["marketplace.engine_spec"], "", SITE, [snippet])
    assert without.applied == ()


def test_a_lesson_that_would_change_nothing_is_not_found() -> None:
    assert found(lesson(PreferTarget(label="Engine log"))) == []


def test_the_one_on_trial_goes_before_what_memory_holds_and_is_placed_alone() -> None:
    best, tried = lesson(wins=9, text="the engine"), lesson(PreferTarget(label="Papers"))
    assert [item.piece for item in overlay_memory(PLAN, "", SITE, [best], tried).applied] == [tried.piece]
    assert [item.piece for item in overlay_memory(PLAN, "", SITE, [best]).applied] == [best.piece]
    rewrite = Piece("rw-a", anchor_of(OPEN), ReplaceUrl(url="/boats-2"), 0, 0)
    both = overlay_memory(PLAN, "", SITE, [best, rewrite]).applied
    assert [(item.piece, item.kind, item.step) for item in both] == [("rw-a", "rewrite", 0), (best.piece, "hint", 2)]


def test_of_two_equal_steps_the_first_is_the_occasion() -> None:
    assert [item.step for item in overlay_memory((OPEN, ENGINE, FILL, ENGINE), "", SITE, [lesson()]).applied][:1] == [1]


@pytest.mark.parametrize(
    ("place", "page"),
    [(0, ""), (1, "/boats"), (2, "/boats"), (3, "")],
)
def test_a_plan_knows_its_page_until_a_step_leads_elsewhere(place: int, page: str) -> None:
    assert planned_page(PLAN, place) == page


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("", "/boats", True),
        ("/boats/*", "/boats/*", True),
        ("/boats/*", "/boats/new", True),
        ("/boats", "/boats/*", False),
        ("/boats/*/papers", "/boats/*/engine", False),
        ("/boats/", "/boats", True),
    ],
)
def test_pages_agree_part_by_part(one: str, other: str, agree: bool) -> None:
    assert pages_agree(one, other) is pages_agree(other, one) is agree


@pytest.mark.parametrize(
    "change",
    [
        HAUL_OUT,
        ReplaceUrl(url="/boats-2"),
        FollowLink(page="/", label="Boats"),
        EditStep(step=OPEN),
        InsertSteps(steps=(ASK, PHONE), where="after"),
    ],
    ids=lambda change: change.kind,
)
def test_content_of_every_change_comes_back(change: Change) -> None:
    assert text_and_change(content_bytes("what it says", change)) == ("what it says", change)
