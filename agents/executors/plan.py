"""The plan executor: walks a micro-plan over plain HTTP, step by step, and stops at the first failed step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ..envs.clients.session import Session
from ..envs.contract import Instance
from ..envs.profiles import EMPTY, Profile
from ..plans import Plan
from .executor import Assignment, Execution, Watch, no_verification
from .surface import HttpSurface
from .walk import walk_plan

NAME: Final = "plan"


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """Executor of plans over HTTP. It uses no model."""

    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor."""
        kept = EMPTY if assignment.profile is None else Profile.from_bytes(assignment.profile)
        with Session(instance.url, headers=assignment.page_headers, profile=kept) as session:
            found = execute(assignment.plan, session, max_steps=assignment.max_steps, watch=watch)
            return replace(found, profile=session.profile().to_bytes())


def execute(plan: Plan, session: Session, *, max_steps: int, watch: Watch = no_verification) -> Execution:
    """Walk the plan over a session. Raises EnvironmentDown."""
    return walk_plan(plan, HttpSurface(session), max_steps=max_steps, watch=watch)
