"""A surface whose steps have slots, filled from the instruction of the instance."""

from __future__ import annotations

from dataclasses import dataclass

from eventlog.events import Step

from ...envs.miniwob.view import View, VisibleElement
from ..slots import EITHER, Unfilled, fill_slots
from ..surface import Acted, missing_target
from .executor import MiniWobSurface


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
