"""Executor of MiniWoB++ tasks by script, and the surface on a tab of the environment's Chromium.

The page belongs to the environment, because it grades itself. An agent gets only mouse, keyboard and view of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from eventlog.events import Step

from ...envs.contract import Instance
from ...envs.miniwob import scripts
from ...envs.miniwob.tabs import HEIGHT, WIDTH, Tab, Tabs
from ...envs.miniwob.view import View
from ..executor import Assignment, ExecutedStep, Execution, Verified, Watch, no_verification
from ..surface import Acted, missing_target
from .scripts import SCRIPTS, Lost

NAME: Final = "miniwob-script"
_KEY: Final = re.compile(
    r"(Shift\+)?([!-~]|Space|Enter|Tab|Backspace|Delete|Escape|Home|End|Page(Up|Down)|Arrow(Up|Down|Left|Right))"
)
_PLACE: Final = re.compile(r"(\d{1,5}),(\d{1,5})")
_WAY: Final = re.compile(r"-?\d{1,5}")


@dataclass(frozen=True, slots=True)
class MiniWobSurface:
    """Surface of one instance's page. It gives no access to the page's scripts or to other pages."""

    _tab: Tab

    def look(self) -> View:
        """Visible elements with their places."""
        return View.model_validate(self._tab.read(scripts.LOOK))

    def text(self) -> str:
        """See Surface. One line for each visible element."""
        return self.look().text()

    def view(self) -> str:
        """See Surface. The same as `text`."""
        return self.text()

    def screenshot(self) -> bytes:
        """See Surface."""
        return self._tab.screenshot()

    def act(self, step: Step) -> Acted:
        """See Surface. The only address is `/`, the page itself; text without a label goes where the focus is."""
        match step.type:
            case "navigate":
                return Acted("ok", led=True) if step.url in (None, "/") else Acted("forbidden")
            case "finish":
                return Acted("ok")
            case "act":
                return Acted("no_such_action")
            case "click" | "submit":
                return self._click(step)
            case "fill_field":
                return self._fill(step)
            case "select_option":
                return self._choose(step)
            case _:
                return self._touch(step, step.value or "")

    def _click(self, step: Step) -> Acted:
        found = self.look().find_target(step.label or "")
        if found is None:
            return Acted(missing_target(step))
        self._tab.click_at(*found.at)
        return Acted("ok", led=True)

    def _fill(self, step: Step) -> Acted:
        if step.label is not None:
            found = self.look().field_called(step.label)
            if found is None:
                return Acted("no_such_field")
            self._tab.click_at(*found.at)
            self._tab.press_key("Control+A")
        self._tab.type_text(step.value or "")
        return Acted("ok", led=True)

    def _choose(self, step: Step) -> Acted:
        found = self.look().field_called(step.label or "")
        if found is None or found.kind != "select":
            return Acted("no_such_field")
        if step.value not in found.options:
            return Acted("no_such_option")
        self._tab.click_at(*found.at)
        for key in ("Home", *("ArrowDown" for _ in range(found.options.index(step.value))), "Enter"):
            self._tab.press_key(key)
        return Acted("ok", led=True)

    def _touch(self, step: Step, value: str) -> Acted:
        """Click at a place, press a key or scroll, if the window has this place or the keyboard this key."""
        if step.type == "click_at" and (place := _PLACE.fullmatch(value)):
            x, y = int(place[1]), int(place[2])
            if x < WIDTH and y < HEIGHT:
                self._tab.click_at(x, y)
                return Acted("ok", led=True)
        elif step.type == "press_key" and _KEY.fullmatch(value):
            self._tab.press_key(value)
            return Acted("ok", led=True)
        elif step.type == "scroll" and _WAY.fullmatch(value):
            self._tab.scroll(int(value))
            return Acted("ok", led=True)
        return Acted(missing_target(step))


def on_miniwob(tabs: Tabs) -> Callable[[Instance, Mapping[str, str]], AbstractContextManager[MiniWobSurface]]:
    """An Opening for MiniWoB++ instances, for a policy. It ignores page headers, because nothing is requested."""

    @contextmanager
    def open_surface(instance: Instance, _page_headers: Mapping[str, str]) -> Iterator[MiniWobSurface]:
        yield MiniWobSurface(tabs.tab(instance.instance))

    return open_surface


@dataclass(frozen=True, slots=True)
class MiniWobScript:
    """Executor of the scripts, one for each task. It uses no model. `pictures` keeps a screenshot of every step."""

    tabs: Tabs
    pictures: bool = False
    name: str = NAME
    offers_logprobs: bool = False

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. A script that does not find an element halts."""
        tab = self.tabs.tab(instance.instance)
        surface = MiniWobSurface(tab)
        solving = SCRIPTS[tab.task](surface.look())
        taken: list[ExecutedStep] = []
        verified: list[Verified] = []
        try:
            for index, (step, acted) in enumerate(_take_script_steps(solving, surface)):
                picture = surface.screenshot() if self.pictures else None
                taken.append(ExecutedStep(index, step, acted.outcome, acted.http_status, surface.text(), picture))
                if (found := watch(taken[-1])) is not None:
                    verified.append(found)
                if acted.outcome != "ok":
                    return Execution(tuple(taken), "halted", verified=tuple(verified))
                if len(taken) == assignment.max_steps:
                    return Execution(tuple(taken), "out_of_budget", verified=tuple(verified))
        except Lost:
            return Execution(tuple(taken), "halted", verified=tuple(verified))
        return Execution(tuple(taken), "completed", verified=tuple(verified))


def _take_script_steps(solving: Generator[Step, View, None], surface: MiniWobSurface) -> Iterator[tuple[Step, Acted]]:
    """Execute each step that a script yields, and send it the view afterwards. Raises Lost."""
    step = next(solving, None)
    while step is not None:
        yield step, surface.act(step)
        try:
            step = solving.send(surface.look())
        except StopIteration:
            return
