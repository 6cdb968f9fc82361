"""The plan executor: walks a micro-plan over plain HTTP, step by step, and stops at the first that fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from eventlog.events import RunStatus, Step, StepOutcome

from ..envs.pages import Absent, Page, Session
from ..plans import Plan

NAME = "plan"


@dataclass(frozen=True, slots=True)
class Taken:
    """One step as it went: its outcome, the status of the page it led to, and what that page said."""

    index: int
    step: Step
    outcome: StepOutcome
    http_status: int | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Execution:
    """A whole plan as it went; `page` is where it ended."""

    taken: tuple[Taken, ...]
    status: RunStatus
    page: Page | None

    @property
    def failed(self) -> Taken | None:
        """The step that stopped it, if one did."""
        return next((taken for taken in self.taken if taken.outcome != "ok"), None)


def execute(plan: Plan, session: Session, *, max_steps: int) -> Execution:
    """Walk the plan. Raises EnvironmentDown where the site does not answer: that is no outcome of the agent."""
    taken: list[Taken] = []
    page: Page | None = None
    for result, page in _walk(plan[:max_steps], session):
        taken.append(result)
        if result.outcome != "ok":
            return Execution(tuple(taken), "halted", page)
    return Execution(tuple(taken), "completed" if len(plan) <= max_steps else "out_of_budget", page)


def _walk(plan: Plan, session: Session) -> Iterator[tuple[Taken, Page | None]]:
    page: Page | None = None
    for index, step in enumerate(plan):
        try:
            moved = _act(step, page, session)
        except Absent as absent:
            yield Taken(index, step, absent.problem, None, None), page
            continue
        if moved is None:
            yield Taken(index, step, "ok", None, None), page
            continue
        page = moved
        yield Taken(index, step, outcome_of(page.status), page.status, page.text()), page


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


def outcome_of(status: int) -> StepOutcome:
    """How a page's status reads to an agent."""
    if status < HTTPStatus.BAD_REQUEST:
        return "ok"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "forbidden"
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return "invalid_form"
    return "not_found" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
