from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.learning.capture import Captured, FailingStep, GoodRun, capture, failing_place
from agents.learning.occasions import OccasionPiece
from agents.learning.retrieval import overlay_memory
from agents.plans import Plan
from benchmarks.shipped import PLANS
from eventlog.events import ExemplarCaptured, FollowLink, InsertSteps, PairedRule, PreferTarget, SnippetLearned, Step

SITE = "marketplace"
ENGINE = Step(type="click", intent="look for the engine", label="Engine log")
REPORT = Step(type="click", intent="look for the engine", label="Haul-out report")
ASK = Step(type="submit", intent="start a contact", label="Start a contact request")
WAIT = Step(type="click", intent="go on", label="Continue")
PHONE = Step(type="submit", intent="show its phone number", label="Show phone number")


def failing(plan: Plan, place: int, template: str = "bad") -> FailingStep:
    return FailingStep(SITE, template, plan, place)


def good(plan: Plan, runs: int = 3, reward: int = 900_000) -> list[GoodRun]:
    return [GoodRun(f"run{number}", "good", plan, reward - number) for number in range(runs)]


def lesson(captured: Captured) -> OccasionPiece:
    return OccasionPiece(
        captured.name, captured.kind, captured.occasion, captured.change, captured.text, captured.title, 0, 0
    )


def test_another_target_of_a_like_step_is_an_exemplar_that_nudges() -> None:
    (found,) = capture([failing((ENGINE,), 0)], good((REPORT,)))
    assert (found.kind, found.change) == ("exemplar", PreferTarget(label="Haul-out report"))
    event = found.event(PairedRule())
    assert isinstance(event, ExemplarCaptured)
    assert (event.form, event.run, event.reward, event.source) == ("nudge", "run0", 900_000, "good_run")
    assert event.content == found.content.digest
    assert overlay_memory((ENGINE,), "", SITE, [lesson(found)]).plan == (REPORT,)


def test_one_step_before_the_same_step_is_put_in_and_more_are_a_recipe() -> None:
    failed = failing((ENGINE, PHONE), 1)
    (one,) = capture([failed], good((ENGINE, ASK, PHONE), runs=1))
    assert (one.kind, one.change) == ("exemplar", InsertSteps(steps=(ASK,)))
    (more,) = capture([failed], good((ENGINE, ASK, WAIT, PHONE)))
    assert (more.kind, more.change, more.title) == (
        "recipe",
        InsertSteps(steps=(ASK, WAIT)),
        "start a contact, then go on",
    )
    assert overlay_memory(failed.plan, "", SITE, [lesson(more)]).plan == (ENGINE, ASK, WAIT, PHONE)
    assert capture([failed], good((ENGINE, ASK, WAIT, PHONE), runs=2)) == ()


def test_a_link_that_leads_to_what_fails_is_a_snippet_once_three_runs_followed_it() -> None:
    """The plans that ship: one task starts where the other's address drifts."""
    failed = failing(PLANS["marketplace.phone_reveal"], 0)
    shown = PLANS["marketplace.price_watch"]
    found = [each for each in capture([failed], good(shown)) if each.kind == "snippet"]
    assert [each.change for each in found] == [FollowLink(page="/", label="Boats for sale")]
    event = found[0].event(PairedRule())
    assert isinstance(event, SnippetLearned)
    assert event.title == "Boats for sale"
    plan = overlay_memory(failed.plan, "", SITE, [lesson(found[0])]).plan
    assert [step.url or step.label for step in plan[:2]] == ["/", "Boats for sale"]
    assert not [each for each in capture([failed], good(shown, runs=2)) if each.kind == "snippet"]


def test_what_everybody_does_already_is_nothing_to_capture() -> None:
    plan = PLANS["marketplace.price_watch"]
    assert capture([failing(plan, len(plan) - 1)], good(plan)) == ()
    assert capture([], good(plan)) == ()
    assert capture([failing(plan, 1)], []) == ()


@given(st.permutations(range(6)), st.permutations([0, 1]))
def test_the_order_of_runs_and_of_failing_steps_does_not_matter(order: list[int], steps: list[int]) -> None:
    runs = [*good((REPORT, ASK, PHONE)), *(GoodRun(f"other{n}", "o", (ASK, PHONE), n) for n in range(3))]
    failed = [failing((ENGINE, PHONE), place) for place in (0, 1)]
    shuffled = capture([failed[place] for place in steps], [runs[index] for index in order])
    assert shuffled == capture(failed, runs)
    assert [each.name for each in shuffled] == sorted(each.name for each in shuffled)


def test_a_step_fails_by_its_intent_and_where_all_went_well_it_is_the_last_that_sent_something() -> None:
    plan = (ENGINE, ASK, PHONE, WAIT)
    assert failing_place(plan, "look for the engine") == 0
    assert failing_place(plan, None) == 2
    assert failing_place(plan, "another step") is None
    assert failing_place((WAIT,), None) is None
