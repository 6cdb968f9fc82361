"""What recovery sees of a MiniWoB++ page, and which targets it thinks of there: without a browser."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agents.envs.clients.controls import Control
from agents.envs.miniwob.view import View, VisibleElement
from agents.executors.miniwob.inspection import controls_of
from agents.learning.inspection import Inspection
from agents.learning.recovery.failing import failed_run
from agents.learning.recovery.recover import recover
from agents.plans import Overlaid, Piece, Plan, apply_overlay
from eventlog.events import PreferTarget, Step


def shown(kind: str, **facts: object) -> VisibleElement:
    return VisibleElement.model_validate({"kind": kind, "box": (0, 0, 9, 9), "at": (5, 5), **facts})


def view(instruction: str, *things: VisibleElement) -> View:
    return View(instruction=instruction, shown=things)


def test_what_takes_a_click_is_a_link_and_a_button_and_fields_are_called_by_their_place() -> None:
    found = controls_of(
        view(
            "Go.",
            shown("p", text="words"),
            shown("button", text="OK"),
            shown("button", text="Later", is_enabled=False),
            shown("input", type="text", value="a"),
            shown("input", type="radio"),
            shown("select", options=("x", "y"), value="x"),
        ),
        has_slots=True,
    )
    assert {(each.kind, each.label) for each in found} == {
        ("link", "OK"),
        ("button", "OK"),
        ("field", "field 1"),
        ("link", "field 1"),
        ("button", "field 1"),
        ("link", "field 2"),
        ("button", "field 2"),
        ("choice", "field 3"),
        ("link", "field 3"),
        ("button", "field 3"),
    }
    assert next(each for each in found if each.kind == "choice").options == ("x", "y")


@pytest.mark.parametrize(
    ("label", "told"),
    [("field 2", "field {number}"), ("sed", "{quoted}"), ("used", None), ("field 22", None)],
)
def test_a_label_that_holds_what_a_slot_is_filled_with_is_seen_with_the_slot_too(label: str, told: str | None) -> None:
    seen = view('Click "sed" in the 2nd.', shown("span", text=label))
    found = [each.label for each in controls_of(seen, has_slots=True)]
    assert sorted(set(found)) == sorted({label, told or label})
    assert {each.label for each in controls_of(seen, has_slots=False)} == {label}


@dataclass(frozen=True)
class Still:
    """A page that stays as it is, and takes whatever it shows."""

    controls: tuple[Control, ...]

    def after(self, steps: Plan) -> Inspection:
        """See Inspector."""
        labels = {each.label for each in self.controls}
        walked = next((place for place, step in enumerate(steps) if step.label not in labels), len(steps))
        return Inspection(walked, "ok" if walked == len(steps) else "no_such_field", "/", "", self.controls)


def proposed(*controls: tuple[str, bool]) -> list[str]:
    step = Step(type="fill_field", intent="enter it", label="Text", value="x")
    page = Still(tuple(Control("field", label, is_named=is_named) for label, is_named in controls))

    def overlay(piece: Piece | None) -> Overlaid:
        return apply_overlay((step,), (), forced=piece)

    found = recover("run", failed_run("miniwob.t", (step,), overlay, 0, 40), page).proposals
    return [each.change.label for each in found if isinstance(each.change, PreferTarget)]


def test_where_no_control_shares_words_the_few_that_have_no_name_are_tried() -> None:
    first, second, third = (f"field {number}" for number in (1, 2, 3))
    assert proposed((first, False)) == [first]
    assert proposed((first, False), ("Name", True)) == [first]
    assert proposed((first, False), (second, False)) == [first, second]
    assert proposed((first, False), (second, False), (third, False)) == []
    assert proposed((first, False), ("the text", True)) == ["the text"]
    assert proposed(("Name", True)) == []
