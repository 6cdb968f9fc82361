"""Whatever a plan is done with, it leaves the same: outcomes, texts, grades, changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.session import Session
from agents.envs.contract import Graded
from agents.envs.sites.known import KNOWN
from agents.executors.browser import BrowserExecutor, Chromium
from agents.executors.executor import Assignment, Execution, Executor
from agents.executors.plan import PlanExecutor, execute
from agents.executors.walk import walk_plan
from benchmarks.shipped import template
from eventlog.events import Step, Template
from tests.browser.site import OwnSite

pytestmark = pytest.mark.browser
SEEDS = (1, 10_001)
SITES = ("marketplace", "helpdesk")
TASKS = [(site, template(task.task_id, task.instruction)) for site in SITES for task in KNOWN[site].tasks]
OPEN = Step(type="navigate", intent="open", url="/boats")
Left = tuple[Execution, Graded, str]


def left_by(executor: Executor, env: EnvClient, task: Template, seed: int) -> Left:
    """What a run leaves: how it went, its grade, and the fingerprint of the instance."""
    instance = env.reset(seed)
    assignment = Assignment(task.instruction, task.plan_steps, task.max_steps)
    done = executor.execute(assignment, instance)
    graded, fingerprint = env.oracle(instance, task.oracle_task_id), env.state(instance).fingerprint
    env.close(instance)
    return done, graded, fingerprint


def bare(execution: Execution) -> Execution:
    """Without the pictures and the profile, which each executor keeps in its own way."""
    taken = tuple(replace(each, screenshot=None) for each in execution.taken)
    return replace(execution, taken=taken, profile=None)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("site", "task"), TASKS, ids=lambda part: getattr(part, "template_id", "on"))
def test_a_task_leaves_the_same(
    site: str, task: Template, seed: int, chromium: Chromium, request: pytest.FixtureRequest
) -> None:
    env = request.getfixturevalue(site)
    done, graded, fingerprint = left_by(BrowserExecutor(chromium), env, task, seed)
    walked, *rest = left_by(PlanExecutor(), env, task, seed)
    assert (bare(done), graded, fingerprint) == (bare(walked), *rest)
    assert [each.screenshot is None for each in done.taken] == [each.text is None for each in done.taken]


def test_runs_side_by_side_leave_what_they_leave_alone(chromium: Chromium, marketplace: EnvClient) -> None:
    _, task = next(pair for pair in TASKS if pair[1].template_id == "marketplace.control_draw")
    executor = BrowserExecutor(chromium)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: left_by(executor, marketplace, task, seed), (3, 4, 3, 4)))
    assert found[:2] == found[2:]
    assert [bare(done) for done, _, _ in found[:2]] == [
        bare(left_by(PlanExecutor(), marketplace, task, seed)[0]) for seed in (3, 4)
    ]


def step(kind: str, label: str, value: str | None = None) -> Step:
    return Step.model_validate({"type": kind, "intent": kind, "label": label, "value": value})


def go(path: str) -> Step:
    return Step(type="navigate", intent="go", url=path)


PLANS: dict[str, tuple[Step, ...]] = {
    "a search": (
        OPEN,
        step("select_option", "make", "yamaha"),
        step("fill_field", "Price", "1"),
        step("fill_field", "Note", "new"),
        step("submit", "SEARCH"),
    ),
    "a form with a name for its button": (OPEN, step("fill_field", "Email", "a@b.test"), step("submit", "Send")),
    "what only a browser would refuse": (OPEN, step("fill_field", "Email", "nobody"), step("submit", "Send")),
    "an empty field that is required": (OPEN, step("submit", "Send")),
    "a link by a part of its text": (OPEN, step("click", "bay")),
    "a redirect after a form": (OPEN, step("submit", "Move"), step("click", "Bayliner")),
    "a dead link": (OPEN, step("click", "Gone")),
    "no such address": (go("/nowhere?x=1"),),
    "an address that leaves": (go("/../../out"),),
    "no such link": (OPEN, step("click", "Unheard of")),
    "no such field": (OPEN, step("fill_field", "Length", "1")),
    "a field of another kind": (OPEN, step("fill_field", "Make", "1")),
    "no such list": (OPEN, step("select_option", "Length", "1")),
    "a list of another kind": (OPEN, step("select_option", "Price", "1")),
    "no such option": (OPEN, step("select_option", "Make", "Bertram")),
    "no such button": (OPEN, step("submit", "Buy")),
    "a form that is refused": (OPEN, step("submit", "Ask"), OPEN),
    "a server that fails": (OPEN, step("submit", "Crash")),
    "what is forbidden": (OPEN, step("submit", "Forbid")),
    "no page yet": (step("click", "Bayliner"),),
    "no field yet": (step("fill_field", "Price", "1"),),
    "text": (go("/note.txt"),),
    "a box that is cleared": (OPEN, step("select_option", "Sure", "not checked"), step("submit", "Send")),
    "controls without labels": (
        go("/unnamed"),
        step("fill_field", "Ship to", "the quay"),
        step("fill_field", "Note", "soon"),
        step("select_option", "Terms", "checked"),
        step("select_option", "Payment", "Now"),
        step("submit", "Order"),
    ),
    "a radio button that there is not": (go("/unnamed"), step("select_option", "Payment", "Never")),
    "the first page": (go("/"), step("click", "Boats"), step("click", "Bayliner")),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_step_ends_the_same_and_asks_the_site_for_the_same(name: str, chromium: Chromium, own: OwnSite) -> None:
    plan = PLANS[name]
    with Session(own.root) as session:
        expected = execute(plan, session, max_steps=9)
    wanted, own.asked = [(method, path, body) for method, path, _, body in own.asked], []
    with chromium.visit(own.root) as surface:
        assert walk_plan(plan, surface, max_steps=9) == expected
    assert [(method, path, body) for method, path, _, body in own.asked] == wanted
