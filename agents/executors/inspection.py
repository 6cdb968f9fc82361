"""Inspects the pages of a run over plain HTTP: the instance is reset and visited in a fresh session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..envs.clients.controls import controls
from ..envs.clients.session import Session
from ..envs.contract import Instance
from ..envs.environment import Environment
from ..learning.inspection import Inspection, Inspector
from ..plans import Plan
from .surface import HttpSurface
from .walk import walk_plan

Inspectors = Callable[[Environment, Instance, int], Inspector]
"""Makes the inspector of an instance, with the index that its run's noise was drawn for."""


@runtime_checkable
class Inspecting(Protocol):
    """An executor whose runs may be inspected in another way than over plain HTTP."""

    def inspectors(self) -> Inspectors:
        """Factory of inspectors for its runs."""
        ...


@dataclass(frozen=True, slots=True)
class HttpInspector:
    """See Inspector. `repeat` is the index that the run's noise was drawn for."""

    environment: Environment
    instance: Instance
    repeat: int

    def after(self, steps: Plan) -> Inspection:
        """See Inspector."""
        anew = self.environment.reset(self.instance.seed, instance=self.instance, repeat=self.repeat)
        with Session(anew.url, headers=self.environment.page_headers) as session:
            return inspect_after(steps, session)


def inspect_after(steps: Plan, session: Session) -> Inspection:
    """Execute steps in a session up to the first failure, and inspect the page. Raises EnvironmentDown."""
    surface = HttpSurface(session)
    went = walk_plan(steps, surface, max_steps=len(steps))
    page, failed = surface.page, went.failed_step
    return Inspection(
        walked=len(went.taken) - (failed is not None),
        outcome="ok" if failed is None else failed.outcome,
        page="" if page is None else page.path,
        text="" if page is None else page.text(),
        controls=() if page is None else controls(page),
    )
