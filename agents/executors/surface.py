"""What an agent acts on: a step in, how it went out, and what is seen afterwards. Over HTTP here, in Chromium beside.

A surface is one visit to one instance. It belongs to one execution and is used by one thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eventlog.events import Step, StepOutcome

from ..envs.clients.compact import compact_view
from ..envs.clients.pages import Absent, Page, Problem
from ..envs.clients.session import Session
from .executor import outcome_of


@dataclass(frozen=True, slots=True)
class Acted:
    """How a step went, the status of the page it led to (None: it asked the site for none), and whether it led to one.

    A page can change in place: then a step led to one without a status.
    """

    outcome: StepOutcome
    http_status: int | None = None
    led: bool = False


class Surface(Protocol):
    """Where steps are taken. Every method raises EnvironmentDown and ContractBroken; neither is the agent's doing."""

    def act(self, step: Step) -> Acted:
        """Take one step. What the page lacks is an outcome, never an error."""
        ...

    def text(self) -> str | None:
        """What the page says now; None before the first one."""
        ...

    def view(self) -> str | None:
        """The page as a model reads it; None before the first one."""
        ...

    def screenshot(self) -> bytes | None:
        """What the window shows now, as PNG; None before the first page, and where nothing is drawn."""
        ...


@dataclass(slots=True)
class HttpSurface:
    """Pages over plain HTTP: nothing is drawn, so that nothing can be clicked at and no key pressed."""

    session: Session
    page: Page | None = None

    def act(self, step: Step) -> Acted:
        """See Surface."""
        try:
            moved = self._move(step)
        except Absent as absent:
            return Acted(absent.problem)
        if moved is None:
            return Acted("ok")
        self.page = moved
        return Acted(outcome_of(moved.status), moved.status, led=True)

    def text(self) -> str | None:
        """See Surface."""
        return None if self.page is None else self.page.text()

    def view(self) -> str | None:
        """See Surface."""
        return None if self.page is None else compact_view(self.page)

    def screenshot(self) -> bytes | None:
        """See Surface."""
        return None

    def _move(self, step: Step) -> Page | None:
        """Do one step; a page if it led to one. Raises Absent."""
        label = step.label or ""
        if step.type == "navigate":
            return self.session.open(step.url or "/")
        if self.page is None and step.type != "finish":
            raise Absent(missing_target(step), label)
        if self.page is not None:
            match step.type:
                case "click":
                    return self.session.open(self.page.link(label).path)
                case "fill_field":
                    self.page.fill(label, step.value or "")
                case "select_option":
                    self.page.choose(label, step.value or "")
                case "submit":
                    return self.session.submit(self.page, label)
                case "click_at" | "press_key":
                    raise Absent(missing_target(step), step.value or "")
                case "scroll" | "finish":
                    pass  # the whole page is read anyway
        return None


def missing_target(step: Step) -> Problem:
    """What is missing where a step finds nothing to act on."""
    return "no_such_link" if step.type in {"click", "click_at"} else "no_such_field"
