"""MiniWoB++ without a browser: what a view says of a page, how scripts answer it, and what may be missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import Mock

import pytest

from agents.envs.contract import Instance
from agents.envs.errors import BrowserMissing, EnvironmentDown, InstanceClosed
from agents.envs.miniwob import served
from agents.envs.miniwob.environment import MiniWob
from agents.envs.miniwob.errors import PagesMissing
from agents.envs.miniwob.served import is_installed, pages_folder
from agents.envs.miniwob.tabs import Tab, Tabs, open_tabs
from agents.envs.miniwob.tasks import TASKS, task_named
from agents.envs.miniwob.view import View, VisibleElement
from agents.envs.unclosed_instances import UNCLOSED, close_or_count
from agents.executors.miniwob.scripts import SCRIPTS, Lost

T = TypeVar("T")


class Chromium:
    """A browser that is connected or dead."""

    def __init__(self, *, is_connected: bool) -> None:
        self.is_connected = lambda: is_connected


class KeepingTabs(Tabs):
    """Tabs of a browser that closes none of them."""

    def __init__(self, *, is_alive: bool) -> None:
        super().__init__(cast("Any", None), "")
        self._browser = cast("Any", Chromium(is_connected=is_alive))

    def call(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        raise EnvironmentDown(url=self.origin, operation=operation, actual="it hangs", timeout_s=1)

    def put(self, instance: str) -> None:
        self._tabs[instance] = Tab(instance, self.origin, "click-test", 1, cast("Any", Mock()), self.call)


@pytest.mark.parametrize("is_alive", [True, False])
def test_an_instance_that_a_living_browser_does_not_close_is_counted(is_alive: bool) -> None:
    tabs, before = KeepingTabs(is_alive=is_alive), UNCLOSED.number
    env = MiniWob("click-test", tabs)
    for instance in "abc":
        tabs.put(instance)
    env._minted |= {"c"}
    close_or_count(env, Instance(seed=1, instance="a", url=tabs.origin))
    with pytest.raises(EnvironmentDown):
        tabs.open("b", "click-test", 1)
    env.disconnect()
    assert UNCLOSED.number == before + 3 * is_alive
    with pytest.raises(InstanceClosed):
        env.close("a")


def shown(kind: str, at: tuple[int, int] = (5, 5), **facts: object) -> VisibleElement:
    return VisibleElement.model_validate({"kind": kind, "box": (at[0] - 5, at[1] - 5, 10, 10), "at": at, **facts})


FORM = View(
    instruction='Enter the username "ann" and the password "x1" into the text fields and press login.',
    shown=(
        shown("label", text="Username:"),
        shown("input", (20, 30), type="text", value="a"),
        shown("input", (20, 60), type="password", is_enabled=False),
        shown("input", (20, 90), type="checkbox", label="Stay", is_checked=True),
        shown("select", (20, 120), options=("Red", "Blue"), value="Red", is_focused=True),
        shown("button", (20, 150), text="Login"),
    ),
)


def test_a_view_is_the_instruction_and_a_line_for_each_visible_thing() -> None:
    assert FORM.text().splitlines() == [
        FORM.instruction,
        '0,0 10x10 label "Username:"',
        "15,25 10x10 input:text (Username) = 'a'",
        "15,55 10x10 input:password (field 2) disabled",
        "15,85 10x10 input:checkbox (Stay) checked",
        "15,115 10x10 select (field 4) = 'Red' [Red | Blue] focused",
        '15,145 10x10 button "Login"',
    ]


def test_a_field_is_found_by_what_it_is_called() -> None:
    assert [name for name, _ in FORM.named_fields()] == ["Username", "field 2", "Stay", "field 4"]
    assert FORM.field("Stay") == FORM.shown[3]
    assert FORM.field("Password") is None


def test_of_equal_words_the_one_that_takes_a_click_is_meant() -> None:
    view = View(instruction="", shown=(shown("span", (9, 9), text="amet"), shown("div", text="amet")))
    assert view.with_text("amet") == view.shown[0]


def test_a_script_goes_from_view_to_view_and_is_lost_where_nothing_fits() -> None:
    solving = SCRIPTS["login-user"](FORM)
    assert next(solving).value == "20,30"
    assert solving.send(FORM).value == "ann"
    assert solving.send(FORM).value == "20,60"
    assert solving.send(FORM).value == "x1"
    assert solving.send(FORM).value == "20,150"
    with pytest.raises(Lost):
        next(SCRIPTS["click-color"](FORM))


@pytest.mark.parametrize(
    ("problem", "answer"), [("x + 2 = 43", "41"), ("2 + x = 43", "41"), ("x - 2 = 43", "45"), ("2 - x = 43", "-41")]
)
def test_equations_are_solved_for_x(problem: str, answer: str) -> None:
    view = View(instruction="", shown=(shown("div", text=problem), shown("input", type="text")))
    solving = SCRIPTS["simple-algebra"](view)
    next(solving)
    assert solving.send(view).value == answer


def test_every_task_has_a_page_in_the_distribution() -> None:
    assert is_installed()
    assert [name for name in TASKS if not (pages_folder() / "miniwob" / f"{name}.html").is_file()] == []
    assert task_named("miniwob.click-link") is task_named("click-link") is TASKS["click-link"]


def test_without_its_pages_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(served, "distribution", none)
    assert not is_installed()
    with pytest.raises(PagesMissing, match=r"requirements/miniwob\.txt"), open_tabs(None):
        pass


def test_without_a_browser_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BrowserMissing, match="apt-get install chromium"), open_tabs(tmp_path / "chromium"):
        pass
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BrowserMissing, match="extra `browser`"), open_tabs(None):
        pass
