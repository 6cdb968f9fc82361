from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.plans import (
    Piece,
    anchor_of,
    apply_change,
    apply_overlay,
    place_of,
    plan_bytes,
    plan_from,
    rewrite_id,
    slot_of,
)
from eventlog.events import Change, EditStep, FollowLink, InsertSteps, PreferTarget, ReplaceUrl, Step, places, unroll
from tests.unit.test_agent_samples import OPEN, piece

SEARCH = Step(type="submit", intent="search", label="Search")
FILL = Step(type="fill_field", intent="limit the price", label="Maximum price", value="40000")
PLAN = (OPEN, FILL, SEARCH)
FOLLOW = FollowLink(page="/", label="Boats for sale")

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
STEPS = st.builds(
    Step,
    type=st.sampled_from(["navigate", "click", "fill_field", "select_option", "submit"]),
    intent=TEXTS,
    url=st.none() | TEXTS,
    label=st.none() | TEXTS,
    value=st.none() | TEXTS,
)
PIECES = st.lists(
    st.builds(
        piece,
        st.sampled_from(["/a", "/b", "/c", "/d"]),
        st.sampled_from([OPEN, FILL, SEARCH, Step(type="click", intent="elsewhere", label="x")]),
        wins=st.integers(0, 3),
        confidence=st.integers(0, 3),
    ),
    max_size=8,
    unique_by=lambda found: found.piece,
)


def test_a_step_keeps_its_anchor_wherever_it_stands() -> None:
    lone = apply_overlay((OPEN,), [piece("/boats-2")])
    moved = apply_overlay((SEARCH, FILL, OPEN, SEARCH), [piece("/boats-2")])
    assert lone.plan[0] == moved.plan[2] != OPEN
    assert (lone.applied[0].step, moved.applied[0].step) == (0, 2)


@pytest.mark.parametrize(
    "change",
    [{"url": "/boats/"}, {"intent": "open boats"}, {"type": "click"}, {"label": "Boats"}, {"value": "1"}],
    ids=lambda change: next(iter(change)),
)
def test_a_step_that_says_something_else_has_another_anchor(change: dict[str, str]) -> None:
    assert anchor_of(OPEN.model_copy(update=change)) != anchor_of(OPEN)


@given(st.lists(STEPS, max_size=5), st.integers(0, 5))
def test_inserting_a_step_changes_no_other_anchor(plan: list[Step], place: int) -> None:
    longer = [*plan[:place], OPEN, *plan[place:]]
    kept = [anchor_of(step) for step in longer]
    kept.remove(anchor_of(OPEN))
    assert sorted(kept, key=str) == sorted([anchor_of(step) for step in plan], key=str)


@given(PIECES, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_pieces_changes_nothing(pieces: list[Piece], shuffle: object, is_forced: bool) -> None:
    forced = pieces[0] if is_forced and pieces else None
    shuffled = list(pieces)
    shuffle.shuffle(shuffled)  # type: ignore[attr-defined]
    assert apply_overlay(PLAN, pieces, forced=forced) == apply_overlay(PLAN, shuffled, forced=forced)


@given(PIECES)
def test_a_step_is_changed_by_at_most_one_piece_and_the_others_are_reported(pieces: list[Piece]) -> None:
    overlaid = apply_overlay(PLAN, pieces)
    steps = [applied.step for applied in overlaid.applied]
    assert len(steps) == len(set(steps))
    for index, step in enumerate(PLAN):
        fitting = {found.piece for found in pieces if found.anchor == anchor_of(step)}
        applied = {found.piece for found in overlaid.applied if found.step == index}
        dropped = {conflict.dropped for conflict in overlaid.conflicts if conflict.step == index}
        assert applied | dropped == fitting
        assert not applied & dropped
        assert {conflict.kept for conflict in overlaid.conflicts if conflict.step == index} <= applied


def test_more_wins_go_first_then_more_confidence() -> None:
    surest, winner, sure = piece("/a", confidence=9), piece("/b", wins=1), piece("/c", confidence=8)
    assert apply_overlay(PLAN, [surest, winner, sure]).plan[0].url == "/b"
    overlaid = apply_overlay(PLAN, [sure, surest])
    assert overlaid.plan[0].url == "/a"
    assert [(found.kept, found.dropped) for found in overlaid.conflicts] == [(surest.piece, sure.piece)]


@pytest.mark.parametrize(
    "edited", [{"url": "/boats-old"}, {"intent": "open boats"}], ids=lambda change: next(iter(change))
)
def test_a_piece_of_the_step_itself_goes_before_a_better_one_of_a_step_that_was_edited(edited: dict[str, str]) -> None:
    own, other = piece("/a"), piece("/b", OPEN.model_copy(update=edited), wins=9, confidence=9)
    overlaid = apply_overlay(PLAN, [other, own])
    assert [item.piece for item in overlaid.applied] == [own.piece]
    assert [(found.kept, found.dropped) for found in overlaid.conflicts] == [(own.piece, other.piece)]
    assert [item.piece for item in apply_overlay(PLAN, [other]).applied] == [other.piece]
    assert [item.piece for item in apply_overlay(PLAN, [own], forced=other).applied] == [other.piece]


def test_the_candidate_on_trial_goes_before_the_best_piece() -> None:
    best, candidate = piece("/best", wins=9), piece("/trial")
    overlaid = apply_overlay(PLAN, [best], forced=candidate)
    assert overlaid.plan[0].url == "/trial"
    assert [found.piece for found in overlaid.applied] == [candidate.piece]
    assert [(found.kept, found.dropped) for found in overlaid.conflicts] == [(candidate.piece, best.piece)]


def test_a_candidate_that_memory_holds_already_is_applied_once() -> None:
    known = piece("/known", wins=3)
    overlaid = apply_overlay(PLAN, [known], forced=known)
    assert [found.piece for found in overlaid.applied] == [known.piece]
    assert overlaid.conflicts == ()


def test_without_memory_a_plan_is_itself() -> None:
    overlaid = apply_overlay(PLAN, [])
    assert (overlaid.plan, overlaid.applied, overlaid.conflicts) == (PLAN, (), ())


def test_following_a_link_stands_as_two_steps_and_what_comes_after_is_still_found() -> None:
    follow = Piece("rw-link", anchor_of(OPEN), FOLLOW, 0, 0)
    later = piece("/x", FILL)
    overlaid = apply_overlay(PLAN, [follow, later])
    assert [step.type for step in overlaid.plan] == ["navigate", "click", "fill_field", "submit"]
    assert (overlaid.plan[0].url, overlaid.plan[1].label) == ("/", "Boats for sale")
    assert [found.step for found in overlaid.applied] == [0, 1]


@given(st.lists(STEPS, max_size=6).map(tuple))
def test_a_plan_is_its_bytes(plan: tuple[Step, ...]) -> None:
    assert plan_from(plan_bytes(plan)) == plan
    assert plan_bytes(plan_from(plan_bytes(plan))) == plan_bytes(plan)


def test_the_same_idea_has_the_same_name_and_another_one_another() -> None:
    anchor = anchor_of(OPEN)
    again = anchor_of(Step.model_validate(OPEN.model_dump()))
    assert rewrite_id(anchor, FOLLOW) == rewrite_id(again, FollowLink(page="/", label="Boats for sale"))
    names = {
        rewrite_id(anchor, FOLLOW),
        rewrite_id(anchor, FollowLink(page="/", label="Boats")),
        rewrite_id(anchor, ReplaceUrl(url="/")),
        rewrite_id(anchor_of(SEARCH), FOLLOW),
    }
    assert len(names) == 4
    assert all(name.startswith("rw-") and len(name) == 15 for name in names)


# All kinds of change, several at one step ------------------------------------------------------------------------

ASK = Step(type="submit", intent="press Ask", label="Ask", optional=True)
CHANGES = st.sampled_from(
    [
        ReplaceUrl(url="/a"),
        FOLLOW,
        EditStep(step=ASK),
        PreferTarget(label="Report"),
        PreferTarget(label="Report", then=("Further",)),
        InsertSteps(steps=(ASK,)),
        InsertSteps(steps=(ASK, ASK), where="after"),
    ]
)


def any_piece(change: Change, step: Step, wins: int, confidence: int) -> Piece:
    return Piece(rewrite_id(anchor_of(step), change), anchor_of(step), change, wins, confidence)


ANY_PIECES = st.lists(
    st.builds(any_piece, CHANGES, st.sampled_from(PLAN), st.integers(0, 2), st.integers(0, 2)),
    max_size=8,
    unique_by=lambda found: found.piece,
)


@given(ANY_PIECES, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_pieces_of_any_kind_changes_nothing(pieces: list[Piece], shuffle: object, is_forced: bool) -> None:
    forced = pieces[0] if is_forced and pieces else None
    shuffled = list(pieces)
    shuffle.shuffle(shuffled)  # type: ignore[attr-defined]
    assert apply_overlay(PLAN, pieces, forced=forced) == apply_overlay(PLAN, shuffled, forced=forced)


@given(ANY_PIECES)
def test_what_is_applied_is_exactly_what_changed_the_plan(pieces: list[Piece]) -> None:
    overlaid = apply_overlay(PLAN, pieces)
    by_id = {each.piece: each for each in pieces}
    held = [(applied.step, slot_of(by_id[applied.piece].change)) for applied in overlaid.applied]
    assert len(held) == len(set(held))
    alone = [by_id[applied.piece] for applied in overlaid.applied]
    assert apply_overlay(PLAN, alone).plan == overlaid.plan
    for each in alone:
        assert apply_overlay(PLAN, [other for other in alone if other != each]).plan != overlaid.plan
    untouched = set(range(len(PLAN))) - {applied.step for applied in overlaid.applied}
    assert all(PLAN[place] in overlaid.plan for place in untouched)
    dropped = {conflict.dropped for conflict in overlaid.conflicts}
    assert dropped | {each.piece for each in alone} == by_id.keys()
    assert not dropped & {each.piece for each in alone}


def test_an_edited_step_and_steps_put_beside_it_do_not_contradict_each_other() -> None:
    edit = any_piece(ReplaceUrl(url="/b"), OPEN, 0, 0)
    before, after = (any_piece(InsertSteps(steps=(ASK,), where=where), OPEN, 0, 0) for where in ("before", "after"))
    overlaid = apply_overlay(PLAN, [after, edit, before])
    assert overlaid.plan[:3] == (ASK, OPEN.model_copy(update={"url": "/b"}), ASK)
    assert overlaid.origins == (0, 0, 0, 1, 2)
    assert ([each.piece for each in overlaid.applied], overlaid.conflicts) == (
        [before.piece, edit.piece, after.piece],
        (),
    )


def test_a_change_to_what_the_plan_says_already_is_not_applied() -> None:
    same = any_piece(ReplaceUrl(url=OPEN.url or ""), OPEN, 9, 0)
    other = piece("/b")
    assert [each.piece for each in apply_overlay(PLAN, [same, other]).applied] == [other.piece]
    assert apply_overlay(PLAN, [same]).applied == ()


# Loops -------------------------------------------------------------------------------------------------------------


@st.composite
def looped(draw: st.DrawFn) -> tuple[Step, ...]:
    """A plan of different steps in which some go back."""
    amount = draw(st.integers(1, 6))
    steps = []
    for number in range(amount):
        step = Step(type="click", intent=f"step {number}", label=f"l{number}")
        loop = {"loop_to": draw(st.integers(0, number)), "loop_count": draw(st.integers(0, 2))}
        steps.append(step.model_copy(update=loop) if draw(st.booleans()) else step)
    return tuple(steps)


@given(looped(), st.data())
def test_steps_put_in_leave_every_loop_with_the_same_steps(plan: tuple[Step, ...], data: st.DataObject) -> None:
    pieces = [
        any_piece(InsertSteps(steps=(ASK,) * data.draw(st.integers(1, 2)), where=where), step, 0, 0)
        for step in plan
        for where in ("before", "after")
        if data.draw(st.booleans())
    ]
    overlaid = apply_overlay(plan, pieces)
    own = [step for step in unroll(overlaid.plan, 5_000) if step != ASK]
    assert own == list(unroll(plan, 5_000))[: len(own)]
    assert len(own) == len(unroll(plan, 5_000)) or len(unroll(overlaid.plan, 5_000)) == 5_000


@given(looped())
def test_a_loop_is_no_part_of_an_anchor_and_every_plan_comes_to_an_end(plan: tuple[Step, ...]) -> None:
    for step in plan:
        assert anchor_of(step) == anchor_of(step.model_copy(update={"loop_to": None, "loop_count": None}))
    taken = list(places(plan))
    assert set(taken) == set(range(len(plan)))
    assert plan_from(plan_bytes(plan)) == plan


def test_a_loop_is_walked_as_often_as_it_says_and_an_inner_one_anew_each_time() -> None:
    a, b, c = (Step(type="click", intent=name, label=name) for name in "abc")
    inner = b.model_copy(update={"loop_to": 1, "loop_count": 1})
    outer = c.model_copy(update={"loop_to": 0, "loop_count": 1})
    assert list(places((a, inner, outer))) == [0, 1, 1, 2, 0, 1, 1, 2]


def test_a_step_without_loop_and_option_is_written_as_it_was_before_there_were_any() -> None:
    assert set(OPEN.model_dump(mode="json")) == {"type", "intent", "url", "label", "value"}
    with pytest.raises(ValueError, match="expected both or neither"):
        Step(type="click", intent="x", label="x", loop_to=0)


# Plans that were edited --------------------------------------------------------------------------------------------


def test_a_piece_finds_its_step_after_the_plan_was_edited() -> None:
    anchor = anchor_of(OPEN)
    reworded = OPEN.model_copy(update={"intent": "go to the boats"})
    edited = OPEN.model_copy(update={"url": "/boats/"})
    assert place_of((edited, reworded, OPEN), anchor) == 2
    assert place_of((edited, reworded, SEARCH), anchor) == 1
    assert place_of((SEARCH, edited, edited), anchor) == 1
    assert place_of((SEARCH, FILL), anchor) is None
    assert place_of((edited.model_copy(update={"type": "click"}),), anchor) is None


def test_only_steps_of_the_anchors_type_are_compared_by_their_content(monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = anchor_of(SEARCH)
    monkeypatch.setattr("agents.plans.anchor_of", lambda _: pytest.fail("the content was compared"))
    assert place_of((OPEN, FILL), anchor) is None


@given(st.lists(STEPS, max_size=6).map(tuple), STEPS)
def test_a_piece_is_applied_to_one_step_at_most(plan: tuple[Step, ...], step: Step) -> None:
    overlaid = apply_overlay(plan, [any_piece(InsertSteps(steps=(ASK,)), step, 0, 0)])
    assert len(overlaid.applied) <= 1
    assert (step in plan) <= (len(overlaid.applied) == 1)
    assert len(overlaid.plan) == len(plan) + len(overlaid.applied)


def test_a_hint_may_name_a_way_of_several_links() -> None:
    step = Step(type="click", intent="look", label="Log")
    assert [each.label for each in apply_change(step, PreferTarget(label="Report", then=("Further",)))] == [
        "Report",
        "Further",
    ]
