from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.plans import Piece, anchor_of, apply_overlay, plan_bytes, plan_from, rewrite_id
from eventlog.events import FollowLink, ReplaceUrl, Step
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
