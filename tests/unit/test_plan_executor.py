from __future__ import annotations

import httpx2
import pytest

from agents.envs.errors import EnvironmentDown
from agents.executors.executor import Execution
from agents.executors.plan import execute
from eventlog.events import Step
from tests.unit.test_agent_samples import OPEN, page, session

BODY = """
<h1>Boats</h1><a href="boats/7">Bayliner</a>
<form action="found"><label>Price <input name="p"></label>
<label for="m">Make</label><select id="m" name="m"><option>Any</option><option>Yamaha</option></select>
<button>Search</button></form>
<form method="post" action="refuse"><button>Ask</button></form>
<form method="post" action="break"><button>Crash</button></form>
<form method="post" action="forbid"><button>Forbid</button></form>
<a href="gone">Gone</a>
"""
SITE: dict[str, httpx2.Response | str] = {
    "/boats": BODY,
    "/boats/7": "<h1>Bayliner</h1>",
    "/found": BODY,
    "/refuse": page("Please tell us your name.", 422),
    "/break": page("Oops", 500),
    "/forbid": page("No", 403),
}


def click(label: str) -> Step:
    return Step(type="click", intent="click", label=label)


def submit(label: str) -> Step:
    return Step(type="submit", intent="submit", label=label)


def fill(label: str) -> Step:
    return Step(type="fill_field", intent="fill", label=label, value="1")


def select(label: str, value: str) -> Step:
    return Step(type="select_option", intent="select", label=label, value=value)


def walked(*steps: Step, max_steps: int = 40) -> Execution:
    with session(SITE) as visit:
        return execute(steps, visit, max_steps=max_steps)


def test_a_plan_that_goes_through_is_completed() -> None:
    done = walked(OPEN, select("Make", "Yamaha"), fill("Price"), submit("Search"), click("Bayliner"))
    assert (done.status, done.failed_step) == ("completed", None)
    assert [(taken.index, taken.outcome, taken.http_status) for taken in done.taken] == [
        (0, "ok", 200),
        (1, "ok", None),
        (2, "ok", None),
        (3, "ok", 200),
        (4, "ok", 200),
    ]
    assert [taken.text is None for taken in done.taken] == [False, True, True, False, False]
    assert "Bayliner" in (done.taken[-1].text or "")


@pytest.mark.parametrize(
    ("step", "outcome", "status"),
    [
        (Step(type="navigate", intent="go", url="/nowhere"), "not_found", 404),
        (Step(type="navigate", intent="go", url="/../../out"), "no_such_link", None),
        (click("Gone"), "not_found", 404),
        (click("Unheard of"), "no_such_link", None),
        (fill("Length"), "no_such_field", None),
        (fill("Make"), "no_such_field", None),
        (select("Length", "1"), "no_such_field", None),
        (select("Make", "Bertram"), "no_such_option", None),
        (submit("Buy"), "no_such_field", None),
        (submit("Ask"), "invalid_form", 422),
        (submit("Crash"), "server_error", 500),
        (submit("Forbid"), "forbidden", 403),
    ],
)
def test_the_first_step_that_fails_is_the_last(step: Step, outcome: str, status: int | None) -> None:
    done = walked(OPEN, step, click("Bayliner"))
    assert done.status == "halted"
    assert [taken.outcome for taken in done.taken] == ["ok", outcome]
    assert done.failed_step == done.taken[1]
    assert (done.failed_step.http_status, done.failed_step.step) == (status, step)


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        (click("Bayliner"), "no_such_link"),
        (fill("Price"), "no_such_field"),
        (select("Make", "Yamaha"), "no_such_field"),
        (submit("Search"), "no_such_field"),
    ],
)
def test_before_any_page_there_is_nothing_to_act_on(step: Step, outcome: str) -> None:
    done = walked(step, OPEN)
    assert (done.status, [(taken.outcome, taken.text) for taken in done.taken]) == ("halted", [(outcome, None)])


@pytest.mark.parametrize(("most", "status"), [(0, "out_of_budget"), (1, "out_of_budget"), (2, "completed")])
def test_a_plan_longer_than_the_budget_stops_there(most: int, status: str) -> None:
    done = walked(OPEN, click("Bayliner"), max_steps=most)
    assert (done.status, len(done.taken)) == (status, most)


def test_a_step_that_fails_within_the_budget_halts() -> None:
    assert walked(OPEN, click("Unheard of"), OPEN, max_steps=2).status == "halted"


def test_an_empty_plan_is_completed() -> None:
    assert walked().status == "completed"


def test_a_site_that_goes_down_is_no_outcome() -> None:
    with session({"/boats": page("busy", 503)}) as visit, pytest.raises(EnvironmentDown):
        execute((OPEN,), visit, max_steps=4)
