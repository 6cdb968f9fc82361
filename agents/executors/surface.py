"""Surfaces, which execute an agent's steps and show it pages: the interface, and the one over HTTP.

A surface is one visit to one instance. It belongs to one execution and is used by one thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eventlog.events import Step, StepOutcome

from ..envs.clients.compact import compact_view
from ..envs.clients.pages import Absent, Page, Problem
from ..envs.clients.session import Session
from ..envs.episodes.episode import ActionSpec
from .executor import outcome_of


@dataclass(frozen=True, slots=True)
class Acted:
    """Outcome of a step, status of the page it led to (None: no request was made), and whether it led to a page.

    If a page changes in place, `led` is True without a status. `is_last` means that the environment ended the task.
    """

    outcome: StepOutcome
    http_status: int | None = None
    led: bool = False
    is_last: bool = False


class Surface(Protocol):
    """Executes steps on pages. Every method raises EnvironmentDown and ContractBroken, which no agent causes."""

    def act(self, step: Step) -> Acted:
        """Execute one step. A missing control is an outcome, not an error."""
        ...

    def text(self) -> str | None:
        """Text of the current page; None before the first page."""
        ...

    def view(self) -> str | None:
        """The current page as shown to a model; None before the first page."""
        ...

    def screenshot(self) -> bytes | None:
        """Screenshot of the window as PNG; None before the first page, and if the surface renders none."""
        ...


@runtime_checkable
class OpenSurface(Surface, Protocol):
    """A surface without pages, which takes actions by name."""

    @property
    def actions(self) -> tuple[ActionSpec, ...]:
        """The actions that it takes."""
        ...


@dataclass(slots=True)
class HttpSurface:
    """Pages over plain HTTP. Nothing is rendered, so `click_at` and `press_key` find no target."""

    session: Session
    page: Page | None = None

    def act(self, step: Step) -> Acted:
        """See Surface."""
        if step.type == "act":
            return Acted("no_such_action")
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
        """Execute one step. Returns the page it led to, if any. Raises Absent."""
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
    """Outcome of a step whose target is missing."""
    return "no_such_link" if step.type in {"click", "click_at"} else "no_such_field"
