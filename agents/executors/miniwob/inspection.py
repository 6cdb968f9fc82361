"""Inspects a MiniWoB++ instance after its run: resets it for each attempt of recovery, and lists its controls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...envs.clients.controls import Control
from ...envs.contract import Instance
from ...envs.environment import Environment
from ...envs.miniwob.tabs import Tabs
from ...envs.miniwob.view import CLICKED, View, VisibleElement
from ...learning.inspection import Inspection
from ...plans import Plan
from ..inspection import Inspectors
from ..slots import Unfilled, fill
from ..surface import Surface
from ..walk import walk_plan
from .executor import MiniWobSurface
from .slot_surface import SlotSurface

PAGE: Final = "/"
_SLOTS: Final = ("{quoted}", "{quoted:2}", "{number}", "{number:2}", "{number:3}")
_TICKED: Final = frozenset({"radio", "checkbox"})


def miniwob_inspectors(tabs: Tabs, *, has_slots: bool) -> Inspectors:
    """Factory of inspectors for runs in these tabs; those of plans have slots, those of policies have none."""
    return partial(MiniWobInspector, tabs, has_slots)


@dataclass(frozen=True, slots=True)
class MiniWobInspector:
    """See Inspector. A wrong click ends the task, but the instance is reset for the next attempt."""

    tabs: Tabs
    has_slots: bool
    environment: Environment
    instance: Instance
    repeat: int

    def after(self, steps: Plan) -> Inspection:
        """See Inspector."""
        anew = self.environment.reset(self.instance.seed, instance=self.instance, repeat=self.repeat)
        page = MiniWobSurface(self.tabs.tab(anew.instance))
        surface: Surface = SlotSurface(page) if self.has_slots else page
        went = walk_plan(steps, surface, max_steps=len(steps))
        view, failed = page.look(), went.failed_step
        return Inspection(
            walked=len(went.taken) - (failed is not None),
            outcome="ok" if failed is None else failed.outcome,
            page=PAGE,
            text=view.text(),
            controls=controls_of(view, has_slots=self.has_slots),
        )


def controls_of(view: View, *, has_slots: bool) -> tuple[Control, ...]:
    """Controls of a view. A clickable element is listed as a link and as a button, because nothing tells them apart.

    With slots, a label that contains the content of a slot is also listed with the slot instead: `field 2` is also
    listed as `field {number}` if the instruction names 2, so that another instance can use it.
    """
    found = [*_fields(view), *_clickable_controls(view)]
    if not has_slots:
        return tuple(found)
    return tuple(each for control in found for each in _labelled_controls(control, view.instruction))


def _fields(view: View) -> Iterator[Control]:
    for number, (name, each) in enumerate(view.named_fields(), 1):
        is_named = name != f"field {number}"
        if not each.is_enabled:
            continue
        if each.kind == "select":
            yield Control("choice", name, options=each.options, value=each.value, is_named=is_named)
        elif each.type not in _TICKED:
            yield Control("field", name, value=each.value, is_named=is_named)
        yield from _to_click(name, is_named=is_named)


def _clickable_controls(view: View) -> Iterator[Control]:
    for each in view.shown:
        if _takes_a_click(each):
            yield from _to_click(each.text)


def _takes_a_click(each: VisibleElement) -> bool:
    return each.kind in CLICKED and each.is_enabled and bool(each.text)


def _to_click(label: str, *, is_named: bool = True) -> Iterator[Control]:
    yield Control("link", label, is_named=is_named)
    yield Control("button", label, is_named=is_named)


def _labelled_controls(control: Control, instruction: str) -> Iterator[Control]:
    """The control under its own label, and under the label with the first slot whose content it contains."""
    yield control
    for slot in _SLOTS:
        try:
            content = fill(slot, instruction)
        except Unfilled:
            continue
        held = re.search(rf"(?<!\w){re.escape(content)}(?!\w)", control.label)
        if content and held:
            label = f"{control.label[: held.start()]}{slot}{control.label[held.end() :]}"
            yield replace(control, label=label)
            return
