"""Every page in Chromium, on a log that has something of everything and on an empty one, and what operators do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from agents.envs.browsers import usable
from api.house import House
from api.settings import read_settings
from api.tokens import issue
from eventlog.database import open_engine
from eventlog.events import ChampionPointed, MemoryQuarantined, RunsWithdrawn
from projections.champions import CHAMPION, CHAMPIONS
from projections.forged import FORGED
from projections.rewrites import REWRITES
from tests.conftest import house_on
from tests.shared import Copies

from . import dashboard
from .dashboard import DATASET, GROUP, PIECE, RUN, RUNNING, SEALED, TOLD, TRAINING, serve_pages

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
KEEPS_PICTURES = os.environ.get("FLYWHEEL_KEEP_PICTURES") == "1"
"""Pictures go to docs/images where this is asked for, else nowhere."""

MOST_PIXELS = 1300
FITTING = """most => {
    const end = element => element.getBoundingClientRect().bottom + window.scrollY
    const foot = document.querySelector('body > footer')
    const whole = foot ? end(foot) + 8 : document.documentElement.scrollHeight
    if (whole <= most) return Math.ceil(whole)
    const parts = [...document.querySelectorAll('main :is(tr, section, figure, p, dl, li, pre)')]
    return Math.ceil(Math.max(most / 2, ...parts.map(end).filter(each => each <= most)))
}"""
"""The height of a picture of a page: all of it, or as many whole rows and paragraphs as fit."""

PAGES = {
    "overview": "/",
    "runs": "/runs",
    "run": f"/runs/{RUN}",
    "compare": f"/compare?left={GROUP}__s0&right={GROUP}__s1",
    "memory": "/memory",
    "piece": f"/memory/rewrite/{PIECE}",
    "gate": "/gate",
    "evaluation": f"/gate/{TOLD}",
    "evaluation-sealed": f"/gate/{SEALED}",
    "champions": "/champions?earlier=300&later=652",
    "groups": "/groups",
    "group": f"/groups/{GROUP}",
    "datasets": "/datasets",
    "dataset": f"/datasets/{DATASET}",
    "trainings": "/training",
    "training": f"/training/{TRAINING}",
    "log": "/log",
    "point": "/moves/point?artifact=base@0",
    "back": "/moves/back",
    "quarantine": f"/moves/quarantine?piece={PIECE}",
    "withdraw": f"/moves/withdraw?runs={GROUP}__s1",
}
FIRST_PAGES = ("/", "/runs", "/compare", "/memory", "/gate", "/champions", "/groups", "/datasets", "/training", "/log")


class Shown:
    """A house that is served, and tokens to sign in with."""

    def __init__(self, house: House, address: str) -> None:
        self.house, self.address = house, address
        self.tokens = {role: issue(house.store, role, "test", role) for role in ("read", "operate")}


@contextmanager
def served(copies: Copies, kind: str) -> Iterator[Shown]:
    with copies() as make:
        database = make(kind)
        engine = open_engine(database.app_url)
        house = house_on(engine, database)
        if kind == "seeded":
            dashboard.plant(house)
        with serve_pages(house) as address:
            yield Shown(house, address)
        engine.dispose()


@pytest.fixture(scope="module")
def shown(copies: Copies) -> Iterator[Shown]:
    with served(copies, "seeded") as found:
        yield found


@pytest.fixture(scope="module")
def empty(copies: Copies) -> Iterator[Shown]:
    with served(copies, "empty") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=usable(read_settings().browser), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1280, "height": 800})
    yield opened
    opened.close()


def sign_in(context: BrowserContext, shown: Shown, role: str) -> Page:
    """A page of somebody with this role, which fails the test where the browser complains of anything."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.complaints = complaints  # type: ignore[attr-defined]
    page.goto(shown.address)
    page.get_by_label("Token").fill(shown.tokens[role])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ui/")
    return page


def violations(page: Page) -> list[str]:
    """What axe finds wrong with a page, as rule and place. It is given to the page by the driver, past its policy."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text("utf-8") + "; undefined")
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary')}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def faults(page: Page) -> list[str]:
    """What is wrong with a page: for axe, for the console, and that it is wider than its window."""
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    said, page.complaints[:] = list(page.complaints), []  # type: ignore[attr-defined]
    return [*violations(page), *said, *([f"it is {wide} pixels too wide"] if wide > 0 else [])]


def expect_clean(page: Page) -> None:
    assert faults(page) == []


def keep(page: Page, name: str) -> None:
    """Take a picture of a page; it is kept where the pictures of the documentation are made."""
    page.evaluate("() => document.querySelectorAll('img').forEach(each => { each.loading = 'eager' })")
    page.wait_for_function("() => [...document.images].every(each => each.complete)")
    height = page.evaluate(FITTING, MOST_PIXELS)
    width = page.evaluate("() => window.innerWidth")
    taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    assert taken.startswith(b"\x89PNG")
    if KEEPS_PICTURES:
        (IMAGES / f"dashboard-{name}.png").write_bytes(taken)


def test_every_page_opens_in_light_and_dark_and_is_accessible(shown: Shown, context: BrowserContext) -> None:
    page, found = sign_in(context, shown, "operate"), {}
    for name, path in PAGES.items():
        page.emulate_media(color_scheme="light")
        answer = page.goto(f"{shown.address}/ui{path}")
        assert answer is not None
        assert answer.status == 200, (name, page.inner_text("body"))
        found[name] = faults(page)
        keep(page, name)
        page.emulate_media(color_scheme="dark")
        found[f"{name}, dark"] = faults(page)
        if name in {"overview", "piece", "training"}:
            assert page.locator("figure.plot canvas").count() >= 1
            keep(page, f"{name}-dark")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_pages_fit_a_narrow_window(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "operate")
    page.set_viewport_size({"width": 360, "height": 740})
    found = {}
    for name, path in PAGES.items():
        page.goto(f"{shown.address}/ui{path}")
        found[name] = faults(page)
        if name in {"overview", "run"}:
            keep(page, f"{name}-narrow")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_pages_of_an_empty_log_say_what_to_do_next(empty: Shown, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(empty.address)
    assert violations(page) == []
    keep(page, "sign-in")
    page.close()
    page = sign_in(context, empty, "operate")
    for path in FIRST_PAGES:
        page.goto(f"{empty.address}/ui{path}")
        expect_clean(page)
        if path not in {"/compare", "/log"}:  # nothing to compare; the log holds the tokens
            assert page.locator("main code", has_text="flywheel").count() >= 1, path
        if path == "/":
            keep(page, "empty")


def test_a_run_is_replayed_and_its_messages_are_read_on_its_page(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/runs/{RUN}")
    page.locator("img.shot").scroll_into_view_if_needed()  # it is loaded when it comes into view
    page.wait_for_function("document.querySelector('img.shot').naturalWidth > 0")
    page.locator("details.call > summary").first.click()
    page.get_by_text("You operate a shop.").first.wait_for()
    page.get_by_role("button", name="Replay").click()
    page.locator("#replay .notice").wait_for()
    page.goto(f"{shown.address}/ui/runs/marketplace-1__marketplace.phone_reveal__seed0__s0")
    page.get_by_role("button", name="Replay").click()
    page.locator("#replay .notice.good", has_text="Identical").wait_for()
    assert page.complaints == []  # type: ignore[attr-defined]


def test_two_marked_runs_are_shown_side_by_side(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/runs?sweep=ext-shop")
    for index in (0, 1):
        page.get_by_label(f"Compare {GROUP}__s{index}").check()
    page.get_by_role("button", name="Compare the two").click()
    page.get_by_text("They part at step 1.").wait_for()


def test_the_slider_shows_the_state_as_of_any_position(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/champions")
    page.locator("#at").fill("1")
    page.locator("#state", has_text="none").get_by_text("0 graded").wait_for()
    page.locator("#at").fill("652")
    page.locator("#state", has_text="base@0").wait_for()
    page.get_by_role("link", name="open every page as of here").click()
    page.locator(".banner", has_text="652").wait_for()
    page.get_by_role("link", name="Champions", exact=True).click()
    assert "as_of=652" in page.url
    assert page.complaints == []  # type: ignore[attr-defined]


def test_keys_lead_to_pages_and_the_theme_can_be_switched(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/ui/runs")
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.name") == "environment"
    page.locator("#theme").click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.locator("body").click(position={"x": 2, "y": 700})
    page.keyboard.press("?")
    assert page.locator("dialog[open]").count() == 1
    expect_clean(page)


def test_new_events_appear_on_the_page_of_the_log(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/log")
    issue(shown.house.store, "another", "test", "read")
    page.locator("tbody th", has_text="TokenIssued").nth(2).wait_for()
    expect_clean(page)


def test_evidence_is_not_told_while_a_benchmark_can_judge_and_drawn_once_it_may_be(
    shown: Shown, context: BrowserContext
) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/gate/{SEALED}")
    assert page.locator("#evidence ~ div meter").count() == 0
    assert page.locator("figure.plot").count() == 0
    assert "0.0078125" not in page.content()
    page.goto(f"{shown.address}/ui/gate/{TOLD}")
    page.locator("figure.plot canvas").wait_for()
    assert page.get_by_role("cell", name="0.0078125", exact=True).count() == 1
    assert page.get_by_text("not shown to be worse").count() >= 1


def test_the_champion_is_what_the_last_verdict_promoted_and_a_look_at_sealed_figures_is_counted(
    shown: Shown, context: BrowserContext
) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/gate/{TOLD}")
    assert page.locator(".notice .tag.promote").evaluate("tag => getComputedStyle(tag).borderTopWidth") == "1px"
    page.goto(f"{shown.address}/ui/gate")
    assert page.get_by_role("cell", name=f"{TOLD} for 0.005", exact=True).count() == 1
    champion = shown.house.views().get(CHAMPIONS, CHAMPION)
    assert champion is not None
    assert (champion.name, champion.by, champion.evaluation) == ("base@395", "gate", TOLD)


def test_groups_of_evaluations_are_shown_where_they_are_asked_for(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/groups")
    assert page.locator("main tbody").get_by_text("of an evaluation").count() == 0
    assert page.locator("main tbody svg.spread").count() > 0
    page.get_by_label("those of evaluations too").check()
    page.get_by_role("button", name="Filter").click()
    page.locator("main tbody").get_by_text("of an evaluation").first.wait_for()
    assert page.get_by_label("those of evaluations too").is_checked()
    expect_clean(page)


def test_curves_of_a_running_stage_are_drawn_again(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/training/{RUNNING}")
    page.locator("figure.plot canvas").first.evaluate("canvas => { canvas.dataset.old = '1' }")
    page.locator("figure.plot canvas:not([data-old])").first.wait_for()
    assert page.complaints == []  # type: ignore[attr-defined]


def test_an_operator_points_goes_back_quarantines_and_withdraws(copies: Copies, context: BrowserContext) -> None:
    with served(copies, "seeded") as own:
        page, store = sign_in(context, own, "operate"), own.house.store
        page.goto(f"{own.address}/ui/moves/point?artifact=base@0")
        _confirm(page, "wrong", "Make it champion")
        assert "expected 'base@0'" in page.inner_text("main")
        page.goto(f"{own.address}/ui/moves/point?artifact=base@0")
        _confirm(page, "base@0", "Make it champion")
        champion = own.house.views().get(CHAMPIONS, CHAMPION)
        assert champion is not None
        assert (champion.name, champion.by, champion.actor) == ("base@0", "operator", "dashboard:operate")
        page.get_by_role("link", name="Go back").click()
        page.wait_for_url("**/moves/back")
        assert violations(page) == []
        keep(page, "back")
        _confirm(page, "base@0", "Go back")
        champion = own.house.views().get(CHAMPIONS, CHAMPION)
        assert champion is not None
        assert (champion.name, champion.by) == ("base@395", "rollback")
        page.goto(f"{own.address}/ui/memory/rewrite/{PIECE}")
        page.get_by_role("link", name="Quarantine").click()
        _confirm(page, PIECE, "Quarantine")
        piece = own.house.views().get(REWRITES, PIECE)
        assert piece is not None
        assert piece.status == "quarantined"
        page.goto(f"{own.address}/ui/runs/{RUN}")
        page.get_by_role("link", name="Withdraw").click()
        _confirm(page, "withdraw 1 run", "Withdraw")
        page.get_by_text("withdrawn since").wait_for()
        last = [item.event for item in store.read() if item.actor == "dashboard:operate"]
        assert [type(event) for event in last if not isinstance(event, MemoryQuarantined)] == [
            ChampionPointed,
            ChampionPointed,
            RunsWithdrawn,
        ]
        assert not own.house.views().find(FORGED)


def _confirm(page: Page, words: str, button: str) -> None:
    page.get_by_label("Reason").fill("a trial by the tests")
    page.get_by_label("to confirm").fill(words)
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_load_state()


def test_a_reader_is_offered_no_move_and_refused_one(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.goto(f"{shown.address}/ui/champions")
    assert page.get_by_role("link", name="Go back").count() == 0
    answer = page.goto(f"{shown.address}/ui/moves/back")
    assert answer is not None
    assert answer.status == 403
    assert "expected operate" in page.inner_text("main")


def test_axe_finds_what_is_wrong(shown: Shown, context: BrowserContext) -> None:
    page = sign_in(context, shown, "read")
    page.evaluate("() => { document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=x><input>') }")
    assert {line.partition(":")[0] for line in violations(page)} >= {"image-alt", "label"}
    assert json.dumps(violations(page))
