"""Walks a plan on a surface step by step, up to the first failed step."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from eventlog.events import RunStatus, Step, places

from ..plans import Plan
from .executor import CostReached, ExecutedStep, Execution, Verified, Watch, no_verification
from .surface import Surface

Pictures = Literal["every step", "pages", "none"]
"""After which steps a screenshot is kept: all of them, those that led to a page, or none."""


def walk_plan(
    plan: Plan, surface: Surface, *, max_steps: int, watch: Watch = no_verification, pictures: Pictures = "none"
) -> Execution:
    """Walk a plan and repeat its loops. An optional step whose control is missing is skipped.

    Steps are numbered in order of execution. Raises EnvironmentDown if the site does not answer, which is no outcome of
    the agent.
    """
    taken: list[ExecutedStep] = []
    verified: list[Verified] = []
    ahead = places(plan)
    for index, place in enumerate(islice(ahead, max_steps)):
        taken.append(_take(index, plan[place], surface, pictures))
        try:
            found = watch(taken[-1])
        except CostReached:
            return Execution(tuple(taken), "out_of_budget", verified=tuple(verified))
        if found is not None:
            verified.append(found)
        if taken[-1].is_failed:
            return Execution(tuple(taken), "halted", verified=tuple(verified))
    status: RunStatus = "completed" if next(ahead, None) is None else "out_of_budget"
    return Execution(tuple(taken), status, verified=tuple(verified))


def _take(index: int, step: Step, surface: Surface, pictures: Pictures) -> ExecutedStep:
    acted = surface.act(step)
    is_drawn = pictures == "every step" or (pictures == "pages" and acted.led)
    return ExecutedStep(
        index,
        step,
        acted.outcome,
        acted.http_status,
        surface.text() if acted.led else None,
        surface.screenshot() if is_drawn else None,
    )
