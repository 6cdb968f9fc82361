"""A policy is told the same of a page in Chromium as over HTTP, what fields hold included."""

from __future__ import annotations

import json

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.session import Session
from agents.envs.contract import Instance
from agents.executors.browser import Chromium
from agents.executors.executor import Assignment
from agents.executors.policy import Opening, PolicyExecutor, over_http
from agents.executors.surface import HttpSurface, Surface
from agents.models.scripted import Scripted
from eventlog.events import Step, Template
from tests.browser.site import OwnSite
from tests.browser.test_same_as_over_http import OPEN, TASKS, go, step

pytestmark = pytest.mark.browser
SEED = 3
FILLED = (
    OPEN,
    step("fill_field", "Price", "40000"),
    step("select_option", "Make", "Yamaha"),
    step("fill_field", "Note", "two\nlines"),
    step("fill_field", "Email", "a@b.test"),
)


def answer(step: Step) -> str:
    """What a model would say to take this step."""
    target = step.url if step.type == "navigate" else step.label
    return json.dumps({"why": "because", "action": step.type, "target": target or "", "value": step.value or ""})


def told(task: Template, instance: Instance, opening: Opening) -> list[str]:
    """All lines that a model which takes a task's steps is told, and how each step went."""
    model = Scripted([*map(answer, task.plan_steps), answer(Step(type="finish", intent="done", value="done"))])
    assignment = Assignment(task.instruction, (), len(task.plan_steps) + 1)
    found = PolicyExecutor(model, opening=opening).execute(assignment, instance)
    lines = [line for message in model.requests[-1].messages for line in message.text.splitlines()]
    return [*lines, *(f"{each.outcome}: {each.text}" for each in found.taken)]


@pytest.mark.parametrize(("site", "task"), TASKS, ids=lambda part: getattr(part, "template_id", "on"))
def test_a_policy_is_told_the_same(
    site: str, task: Template, chromium: Chromium, request: pytest.FixtureRequest
) -> None:
    env: EnvClient = request.getfixturevalue(site)
    openings: list[Opening] = [over_http, lambda instance, headers: chromium.visit(instance.url, headers=headers)]
    over, within = (told(task, env.reset(SEED), opening) for opening in openings)
    assert within == over


def views(surface: Surface, steps: tuple[Step, ...]) -> list[str | None]:
    """What a model would see after each step."""
    found = [surface.view()]
    for each in steps:
        assert surface.act(each).outcome == "ok"
        found.append(surface.view())
    return found


def test_what_is_written_and_chosen_is_in_the_view(chromium: Chromium, own: OwnSite) -> None:
    with Session(own.root) as session:
        expected = views(HttpSurface(session), FILLED)
    with chromium.visit(own.root) as surface:
        found = views(surface, FILLED)
    assert found == expected
    assert found[0] is None
    for line in (
        '[field] Price: "40000"',
        '[choice] Make: "Yamaha" of "Any", "Yamaha"',
        '[field] Note: "two lines"',
        '[choice] Sure: "checked" of "checked", "not checked"',
    ):
        assert line in str(found[-1]).splitlines()


def test_a_box_that_was_unchecked_in_the_window_is_seen_unchecked(chromium: Chromium, own: OwnSite) -> None:
    with chromium.visit(own.root) as surface:
        surface.act(OPEN)
        surface.act(step("fill_field", "Email", "a@b.test"))
        assert '[choice] Sure: "checked" of' in str(surface.view())
        surface.act(Step(type="press_key", intent="to the box", value="Tab"))
        surface.act(Step(type="press_key", intent="change it", value="Space"))
        assert '[choice] Sure: "not checked" of' in str(surface.view())
        surface.act(go("/boats"))
        assert '[choice] Sure: "checked" of' in str(surface.view())
