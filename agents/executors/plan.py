"""The plan executor: walks a micro-plan over plain HTTP, step by step, and stops at the first that fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from eventlog.events import RunStatus, Step

from ..envs.contract import Instance
from ..envs.pages import Absent, Page, Session
from ..plans import Plan
from .executor import Assignment, Execution, Taken, Verified, Watch, outcome_of, unwatched

NAME: Final = "plan"


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """The executor over HTTP; it draws nothing."""

    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = unwatched) -> Execution:
        """See Executor."""
        with Session(instance.url, headers=assignment.page_headers) as session:
            return execute(assignment.plan, session, max_steps=assignment.max_steps, watch=watch)


def execute(plan: Plan, session: Session, *, max_steps: int, watch: Watch = unwatched) -> Execution:
    """Walk the plan. Raises EnvironmentDown where the site does not answer: that is no outcome of the agent."""
    taken: list[Taken] = []
    verified: list[Verified] = []
    for step in _walk(plan[:max_steps], session):
        taken.append(step)
        if (found := watch(step)) is not None:
            verified.append(found)
        if step.outcome != "ok":
            return Execution(tuple(taken), "halted", verified=tuple(verified))
    status: RunStatus = "completed" if len(plan) <= max_steps else "out_of_budget"
    return Execution(tuple(taken), status, verified=tuple(verified))


def _walk(plan: Plan, session: Session) -> Iterator[Taken]:
    page: Page | None = None
    for index, step in enumerate(plan):
        try:
            moved = _act(step, page, session)
        except Absent as absent:
            yield Taken(index, step, absent.problem, None, None)
            continue
        if moved is None:
            yield Taken(index, step, "ok", None, None)
            continue
        page = moved
        yield Taken(index, step, outcome_of(page.status), page.status, page.text())


def _act(step: Step, page: Page | None, session: Session) -> Page | None:
    """Do one step; a page if it led to one. Raises Absent."""
    label = step.label or ""
    if step.type == "navigate":
        return session.open(step.url or "/")
    if page is None:
        raise Absent("no_such_link" if step.type == "click" else "no_such_field", label)
    match step.type:
        case "click":
            return session.open(page.link(label).path)
        case "fill_field":
            page.fill(label, step.value or "")
        case "select_option":
            page.choose(label, step.value or "")
        case "submit":
            return session.submit(page, label)
    return None
