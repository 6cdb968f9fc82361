"""Slots: filled from an instruction by rule, refused where it has nothing for them, and plans have no others."""

from __future__ import annotations

import pytest

from agents.envs.miniwob.tasks import TASKS
from agents.envs.miniwob.view import View, VisibleElement
from agents.executors.miniwob.slot_surface import resolve_step, target
from agents.executors.slots import Unfilled, either, fill, fill_slots, slots_of
from benchmarks.shipped import PAGE_PLANS as PLANS
from benchmarks.shipped import template
from eventlog.events import Step

INSTRUCTION = 'Enter the username "ann" and the password "x (1)", 3rd try.'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{quoted}", "ann"),
        ("{quoted:2}", "x (1)"),
        ("field {number:2}", "field 3"),
        ("{after:password}", '"x (1)", 3rd try'),
        ("{between:Enter...and}", 'the username "ann"'),
        ("{quoted}/{quoted:2}", "ann/x (1)"),
        ("{plain} words", "{plain} words"),
    ],
)
def test_a_slot_is_filled_from_the_instruction(text: str, expected: str) -> None:
    assert fill(text, INSTRUCTION) == expected


@pytest.mark.parametrize(
    "text",
    ["{quoted:3}", "{quoted:0}", "{quoted:x}", "{quoted:²}", "{number:9}", "{after:nothing}", "{between:Enter...or}"],
)
def test_a_slot_without_its_words_is_refused(text: str) -> None:
    with pytest.raises(Unfilled):
        fill(text, INSTRUCTION)


def test_what_is_filled_in_is_not_read_for_slots_again() -> None:
    assert fill("{quoted}", 'Type "{quoted:2}" or "b".') == "{quoted:2}"


def test_a_step_keeps_all_but_its_label_and_value() -> None:
    step = Step(type="fill_field", intent="say {quoted}", label="Name {number:2}", value="{quoted}")
    assert fill_slots(step, INSTRUCTION) == Step(type="fill_field", intent="say {quoted}", label="Name 3", value="ann")


def shown(kind: str, **facts: object) -> VisibleElement:
    return VisibleElement.model_validate({"kind": kind, "box": (0, 0, 9, 9), "at": (5, 5), **facts})


VIEW = View(
    instruction='Click "no".',
    shown=(
        shown("h3", text="Section #45"),
        shown("button", text="OK"),
        shown("input", type="text"),
        shown("p", text="a b"),
    ),
)


def test_of_several_labels_the_first_that_is_seen_is_meant() -> None:
    step = Step(type="click", intent="click", label=either("{quoted}", "OK", "field 1"))
    assert resolve_step(step, VIEW).label == "OK"
    assert resolve_step(step, View(instruction='Click "no".', shown=())).label == "no"


@pytest.mark.parametrize(
    ("label", "kind"),
    [("Section", "h3"), ("section #45", "h3"), ("ok:", "button"), ("Field 1", "input"), ("sect", None), ("b", None)],
)
def test_a_label_is_found_by_its_words_however_they_are_written(label: str, kind: str | None) -> None:
    found = target(Step(type="click", intent="click", label=label), VIEW)
    assert (None if found is None else found.kind) == kind


def test_every_plan_is_of_a_task_and_has_slots_that_are_known() -> None:
    assert PLANS.keys() <= TASKS.keys()
    assert len(PLANS) >= 12
    for plan in PLANS.values():
        for step in plan:
            for text in (step.label or "", step.value or ""):
                assert "".join(slots_of(text)).count("{") == text.count("{"), text
    assert template("miniwob.enter-text", "Enter.").plan_steps == PLANS["enter-text"]
    assert template("miniwob.read-table", "Read.").plan_steps[0].type == "navigate"
