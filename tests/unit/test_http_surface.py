from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.executors.surface import Acted, HttpSurface
from eventlog.events import Step
from tests.unit.test_agent_samples import OPEN, page, session

BODY = '<h1>Boats</h1><a href="boats/7">Bayliner</a><a href="gone">Gone</a><label>Price <input name="p"></label>'


@pytest.fixture
def surface() -> Iterator[HttpSurface]:
    with session({"/boats": BODY, "/boats/7": "<h1>Bayliner</h1>", "/no": page("No", 403)}) as visit:
        yield HttpSurface(visit)


def step(kind: str, **parts: str) -> Step:
    return Step.model_validate({"type": kind, "intent": kind, **parts})


def test_before_the_first_page_it_says_and_shows_nothing(surface: HttpSurface) -> None:
    assert (surface.text(), surface.screenshot()) == (None, None)


def test_a_step_that_leads_to_a_page_says_its_status_and_changes_what_is_said(surface: HttpSurface) -> None:
    assert surface.act(OPEN) == Acted("ok", 200, led=True)
    assert surface.act(step("click", label="Bayliner")) == Acted("ok", 200, led=True)
    assert surface.text() == "Bayliner"
    assert surface.act(step("navigate", url="/no")) == Acted("forbidden", 403, led=True)


def test_a_step_that_finds_nothing_leaves_the_page_as_it_was(surface: HttpSurface) -> None:
    surface.act(OPEN)
    before = surface.text()
    assert surface.act(step("click", label="Sea Ray")) == Acted("no_such_link")
    assert surface.act(step("fill_field", label="Price", value="1")) == Acted("ok")
    assert surface.text() == before


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("click_at", "no_such_link"), ("press_key", "no_such_field"), ("scroll", "ok"), ("finish", "ok")],
)
def test_what_needs_a_window_finds_none(surface: HttpSurface, kind: str, outcome: str) -> None:
    surface.act(OPEN)
    assert surface.act(step(kind, value="3,4")).outcome == outcome


def test_an_agent_may_finish_before_any_page(surface: HttpSurface) -> None:
    assert surface.act(step("finish", value="42")) == Acted("ok")
    assert surface.act(step("scroll")) == Acted("no_such_field")
