"""Walks a plan on a MiniWoB++ page. Its slots are filled from the instance's instruction, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...envs.contract import Instance
from ...envs.miniwob.tabs import Tabs
from ..executor import Assignment, Execution, Watch, no_verification
from ..inspection import Inspectors
from ..walk import walk_plan
from .executor import MiniWobSurface
from .inspection import miniwob_inspectors
from .slot_surface import SlotSurface

NAME: Final = "miniwob-plan"


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

    def inspectors(self) -> Inspectors:
        """See Inspecting."""
        return miniwob_inspectors(self.tabs, has_slots=True)
