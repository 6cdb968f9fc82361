"""What plain HTTP does not have: scripts, windows, pictures, cookies that are kept, and a network to be kept out of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.envs.contract import Instance
from agents.envs.errors import ContractBroken, EnvironmentDown
from agents.executors.browser import BrowserExecutor, Chromium
from agents.executors.executor import Assignment
from agents.executors.surface import Acted
from agents.executors.walk import Pictures, walk_plan
from api.settings import read_settings
from tests.browser.site import OwnSite
from tests.browser.test_same_as_over_http import go, step

pytestmark = pytest.mark.browser
PNG = b"\x89PNG\r\n\x1a\n"


def test_a_new_window_opens_in_the_one_there_is(chromium: Chromium, own: OwnSite) -> None:
    for control in (step("click", "New window"), step("submit", "By script")):
        with chromium.visit(own.root) as surface:
            surface.act(go("/windows"))
            assert surface.act(control) == Acted("ok", 200, led=True)
            assert "Blue & white" in (surface.text() or "")


def test_what_is_not_shown_is_neither_read_nor_found(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(go("/hidden"))
        assert surface.text() == "Shown\n[a] Boat"
        assert surface.act(step("click", "Boat")) == Acted("ok", 200, led=True)


def test_a_page_that_changes_in_place_is_led_to_without_a_status(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(go("/in-place"))
        assert surface.act(step("submit", "Count")) == Acted("ok", None, led=True)
        assert (surface.text() or "").startswith("One")


def test_a_policy_clicks_at_a_place_presses_keys_and_scrolls(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(go("/place"))
        assert surface.act(step("click_at", "", "210,108")) == Acted("ok", 200, led=True)
        assert surface.act(step("click_at", "", "nowhere")) == Acted("no_such_link")
        assert surface.act(step("click_at", "", "4000,10")) == Acted("no_such_link")
        surface.act(go("/keys"))
        assert surface.act(step("scroll", "", "300")) == Acted("ok")
        assert surface.act(step("fill_field", "Name", "x")) == Acted("ok")
        assert surface.act(step("press_key", "", "y")) == Acted("ok")
        assert surface.act(step("press_key", "", "NoSuchKey")) == Acted("no_such_field")
        assert surface.act(step("press_key", "", "Enter")) == Acted("ok", 200, led=True)
        assert surface.act(step("finish", "", "done")) == Acted("ok")
    assert own.paths()[-1] == "GET /i/abc/found?q=xy"


@pytest.mark.parametrize(("wanted", "shown"), [("300", "Scrolled 300"), ("down", "Scrolled 540"), ("aside", "Keys")])
def test_scrolling_goes_so_many_pixels(wanted: str, shown: str, chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(go("/keys"))
        acted = surface.act(step("scroll", "", wanted))
        surface.screenshot()  # a frame is drawn: then scripts hear of it
        assert (acted.outcome == "ok") == (wanted != "aside")
        assert (surface.text() or "").startswith(shown)


def test_nothing_is_downloaded(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(go("/"))
        assert surface.act(go("/file")).http_status == 200
        assert (surface.text() or "").startswith("Home")


@pytest.mark.parametrize("path", ["/sent-out", "/sent-away"])
def test_a_redirect_out_of_the_instance_breaks_the_contract(path: str, chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface, pytest.raises(ContractBroken, match="it leads to"):
        surface.act(go(path))


@pytest.mark.parametrize("path", ["/out", "/away"])
def test_a_script_that_leaves_the_instance_is_stopped(path: str, chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(go(path))
        with pytest.raises(ContractBroken, match="it leads to"):
            surface.act(step("submit", "Leave"))
    assert own.paths() == [f"GET /i/abc{path}"]


def test_what_a_page_loads_beside_comes_from_its_own_origin_or_not_at_all(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        assert surface.act(go("/beside")) == Acted("ok", 200, led=True)
        assert surface.act(step("fill_field", "None", "")).outcome == "no_such_field"
        assert surface.text() == "Alone"
    assert own.paths() == ["GET /i/abc/beside", "GET /shared/logo.png"]


@pytest.mark.parametrize("path", ["/busy", "/often", "/gateway", "/slow", "/hangs"])
def test_a_site_that_does_not_answer_is_down(path: str, own: OwnSite) -> None:
    with Chromium(read_settings().browser, timeout_s=4.0) as hasty, hasty.visit(own.root) as surface:
        with pytest.raises(EnvironmentDown):
            walk_plan((go(path), step("submit", "Spin")), surface, max_steps=2)
        own.released.set()


def test_a_site_that_is_gone_is_down(chromium: Chromium) -> None:
    with chromium.visit("http://127.0.0.1:9/i/abc/") as surface, pytest.raises(EnvironmentDown, match="ERR_"):
        surface.act(go("/"))


def test_extra_headers_go_on_every_request(own: OwnSite) -> None:
    with (
        Chromium(read_settings().browser, extra_headers={"x-preview": "let me in"}) as proxied,
        proxied.visit(own.root) as surface,
    ):
        surface.act(go("/beside"))
        surface.act(go("/boats"))
        surface.act(step("submit", "Move"))
    assert len(own.asked) == 5
    assert {headers.get("x-preview") for _, _, headers, _ in own.asked} == {"let me in"}


def test_a_login_survives_into_the_next_call_of_a_session_and_no_further(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as first:
        first.act(go("/login"))
        first.act(go("/boats"))
        profile = first.profile()
    with chromium.visit(own.root, profile) as second:
        assert (second.text() or "").startswith("Boats")
        assert second.act(step("click", "Bayliner")) == Acted("ok", 200, led=True)
        second.act(go("/me"))
        assert second.text() == "You are alex"
    with chromium.visit(own.root) as stranger:
        assert stranger.text() is None
        stranger.act(go("/me"))
        assert stranger.text() == "Please log in"
    assert json.loads(profile)["at"] == "/boats"


@pytest.mark.parametrize(("pictures", "kept"), [("every step", [1, 1, 1]), ("pages", [1, 0, 1]), ("none", [0, 0, 0])])
def test_screenshots_are_kept_as_asked_for(
    pictures: Pictures, kept: list[int], chromium: Chromium, own: OwnSite
) -> None:
    plan = (go("/boats"), step("fill_field", "Price", "1"), step("click", "Bayliner"))
    executor = BrowserExecutor(chromium, pictures=pictures)
    instance = Instance.model_validate({"seed": 1, "instance": "abc", "url": own.root})
    done = executor.execute(Assignment("", plan, 9), instance)
    assert [int((each.screenshot or b"").startswith(PNG)) for each in done.taken] == kept


def test_the_same_steps_look_the_same(chromium: Chromium, own: OwnSite) -> None:
    plan = (
        go("/boats"),
        step("fill_field", "Price", "12"),
        step("select_option", "Make", "Yamaha"),
        step("submit", "Ask"),
    )

    def seen() -> list[bytes | None]:
        with chromium.visit(own.root) as surface:
            return [each.screenshot for each in walk_plan(plan, surface, max_steps=9, pictures="every step").taken]

    first = seen()
    assert None not in first
    assert len(set(first)) == len(plan)
    assert seen() == first


def test_a_browser_that_died_is_started_again(own: OwnSite, tmp_path: Path) -> None:
    started, program = tmp_path / "started", tmp_path / "chromium"
    program.write_text(f'#!/bin/sh\necho $$ >> {started}\nexec {read_settings().browser} "$@"\n')
    program.chmod(0o755)
    with Chromium(program) as mortal:
        with mortal.visit(own.root) as surface:
            surface.act(go("/"))
            os.kill(int(started.read_text()), signal.SIGKILL)
            with pytest.raises(EnvironmentDown):
                surface.act(go("/boats"))
        with mortal.visit(own.root) as surface:
            assert surface.act(go("/boats")).outcome == "ok"
    assert len(started.read_text().split()) == 2


INTERRUPTED = """
import signal, sys
from agents.executors.browser import Chromium
from api.settings import read_settings
from eventlog.events import Step
signal.signal(signal.SIGINT, signal.SIG_IGN)
with Chromium(read_settings().browser) as chromium, chromium.visit(sys.argv[1]) as surface:
    print("ready", flush=True)
    sys.stdin.readline()
    print(surface.act(Step(type="navigate", intent="go", url="/boats")).outcome)
"""


def test_an_interrupt_of_the_terminal_does_not_reach_the_browser(own: OwnSite) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, own.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.killpg(child.pid, signal.SIGINT)
        assert child.communicate(b"\n")[0] == b"ok\n"
