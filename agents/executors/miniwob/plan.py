"""Walks a plan on a MiniWoB++ page. Its slots are filled from the instance's instruction, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eventlog.events import Step

from ...envs.contract import Instance
from ...envs.miniwob.tabs import Tabs
from ...envs.miniwob.view import View, VisibleElement
from ..executor import Assignment, Execution, Watch, no_verification
from ..slots import EITHER, Unfilled, fill_slots
from ..surface import Acted, missing_target
from ..walk import walk_plan
from .executor import MiniWobSurface

NAME: Final = "miniwob-plan"


@dataclass(frozen=True, slots=True)
class SlotSurface:
    """Surface that executes steps with slots. Steps are recorded with their slots, so that memory can match them."""

    page: MiniWobSurface

    def act(self, step: Step) -> Acted:
        """See Surface. A slot that the instruction does not fill counts as a missing control."""
        view = self.page.look()
        try:
            return self.page.act(resolve_step(step, view))
        except Unfilled:
            return Acted(missing_target(step))

    def text(self) -> str:
        """See Surface."""
        return self.page.text()

    def view(self) -> str:
        """See Surface."""
        return self.page.view()

    def screenshot(self) -> bytes:
        """See Surface."""
        return self.page.screenshot()


def resolve_step(step: Step, view: View) -> Step:
    """Fill the slots of a step, and choose the first visible one of several labels. Raises Unfilled."""
    asked = fill_slots(step, view.instruction)
    labels = (asked.label or "").split(EITHER)
    if len(labels) == 1:
        return asked
    seen = next((label for label in labels if target(asked.model_copy(update={"label": label}), view)), labels[0])
    return asked.model_copy(update={"label": seen})


def target(step: Step, view: View) -> VisibleElement | None:
    """The element that a step acts on; None if it is not visible."""
    label = step.label or ""
    match step.type:
        case "fill_field":
            return view.field_called(label)
        case "select_option":
            found = view.field_called(label)
            return found if found is not None and found.kind == "select" else None
        case _:
            return view.find_target(label)


@dataclass(frozen=True, slots=True)
class MiniWobPlan:
    """Executor of plans with slots. It uses no model."""

    tabs: Tabs
    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor."""
        surface = SlotSurface(MiniWobSurface(self.tabs.tab(instance.instance)))
        return walk_plan(assignment.plan, surface, max_steps=assignment.max_steps, watch=watch)
