"""The terms of a run that was asked for: its largest cost and time, headers of its pages, and going on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi.testclient import TestClient

from agents.envs.clients.client import EnvClient
from agents.executors.actions import answer_of
from agents.executors.policy import PolicyExecutor
from agents.executors.terms import TermedExecutor
from agents.models.errors import ModelUnreachable
from agents.models.model import Completion, CompletionRequest, Offers, Sample
from agents.rollouts.dispatching.durable import Terms
from agents.rollouts.dispatching.queue import JobTicket, RolloutQueue
from agents.rollouts.dispatching.state_keys import independent
from api.cli.main import run_command
from api.history.disown import forged_events
from api.house import House
from api.sweeps.predictions import ACTOR
from api.sweeps.terms import means_of_run
from api.sweeps.worker import SiteRunner
from eventlog.events import ModelCalled, Step, StepTaken
from tests.admitted import admitted
from tests.conftest import Database
from tests.sites import SharedSite

PAGES = ["/boats", "/", "/boats", "/", "/boats", "/"]
SUITE: dict[str, Any] = {
    "name": "own",
    "environment": "marketplace",
    "tasks": [
        {
            "id": "walk",
            "oracle_task": "marketplace.control_draw",
            "instruction": "look at pages",
            "plan": [{"type": "navigate", "intent": "open a page", "url": "/"} for _ in PAGES],
        }
    ],
}
ASKED: dict[str, Any] = {"environment": "marketplace", "task": "walk", "task_suite": SUITE, "seed": 3}
TEXTS = Offers(logprobs=False, token_ids=False, seed=True, images=False, schema=False)
POLICY = {"executor": "policy", "model": "m1"}


@pytest.fixture
def house(empty_house: House) -> House:
    admitted(empty_house.store, "marketplace")
    return empty_house


@pytest.fixture
def ask(client: TestClient, house: House) -> Callable[..., Any]:
    """Ask for a run on an admitted site."""
    return lambda **further: client.post("/v1/predict", json={**ASKED, **further})


@pytest.fixture
def play(shared_site: SharedSite, empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Have a worker play all that waits."""
    site = shared_site("marketplace")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    return lambda: run_command(["worker", "--until-empty", "--url", site.url, "--admin-url", site.admin_url])


@dataclass
class Walker:
    """A model that opens pages and finishes. It fails at the numbers of its requests in `fails`."""

    name: str = "openai:m1"
    offers: Offers = TEXTS
    fails: dict[int, Exception] = field(default_factory=dict)
    asked: list[CompletionRequest] = field(default_factory=list)
    tokens: int | None = 1_000

    def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        if (failure := self.fails.get(len(self.asked))) is not None:
            raise failure
        said = sum(message.role == "assistant" for message in request.messages)
        steps = [Step(type="navigate", intent="look", url=url) for url in PAGES]
        step = steps[said] if said < len(steps) else Step(type="finish", intent="end", value="done")
        return Completion(self.name, (Sample(answer_of(step), "stop"),), self.tokens, self.tokens)


@pytest.fixture
def runner(house: House, marketplace: EnvClient) -> Callable[[Walker], SiteRunner]:
    """A runner of a policy with this model."""
    return lambda model: SiteRunner(
        house, marketplace, "marketplace", Terms(), list[Any]().append, PolicyExecutor(model)
    )


def ticket_of(run: str) -> JobTicket:
    return JobTicket(run.partition("__")[0], run)


def steps_of(house: House, run: str) -> int:
    return sum(isinstance(each.event, StepTaken) for each in house.store.read(stream=f"run/{run}"))


@pytest.mark.parametrize(
    ("further", "words"),
    [
        ({"max_cost": 25.5}, "at most 25 dollars"),
        ({"max_time_minutes": 61}, "at most 60 minutes"),
        ({"max_cost": 0}, "max_cost"),
        ({"_browser_extra_headers": {"x-preview": "a secret"}}, "_browser_extra_headers"),
        ({"_browser_extra_headers": {"x-preview": "$FLYWHEEL_ENV_ADMIN_TOKEN"}}, "_browser_extra_headers"),
        ({"_browser_extra_headers": {"x preview": "$FLYWHEEL_PAGE_A"}}, "_browser_extra_headers"),
    ],
)
def test_terms_beyond_a_bound_are_refused_and_not_reduced(
    further: dict[str, Any], words: str, ask: Callable[..., Any], house: House
) -> None:
    refused = ask(**further)
    assert (refused.status_code, words in refused.text) == (422, True), refused.text
    assert "SweepPlanned" not in house.store.counts()


def test_a_plan_that_costs_more_than_it_may_ends_and_is_graded_as_it_stands(
    ask: Callable[..., Any], play: Callable[[], int], client: TestClient, house: House
) -> None:
    asked = ask(max_cost=0.0003, max_time_minutes=10)  # an action costs .0002
    assert asked.status_code == 202, asked.text
    assert play() == 0
    over = client.get(asked.json()["status_path"]).json()
    assert (over["status"], over["reason"], over["is_over"]) == ("failed", "out_of_budget", True)
    assert over["cost"] > 300
    assert 1 <= steps_of(house, over["run"]) <= 2
    assert forged_events(house.views()) == ()
    assert {each.actor for each in house.store.read(stream=f"predict/{over['run']}")} == {ACTOR}


def test_a_policy_that_costs_more_than_it_may_is_asked_no_more(
    ask: Callable[..., Any], runner: Callable[[Walker], SiteRunner], client: TestClient
) -> None:
    run, walker = ask(max_cost=0.03, **POLICY).json()["run"], Walker()  # a call costs .018, without its step
    facts = runner(walker).play(ticket_of(run), independent(run))
    assert (facts["status"], len(walker.asked)) == ("out_of_budget", 2)
    assert client.get(f"/v1/predict/{run}").json()["reason"] == "out_of_budget"


def test_a_limited_run_of_a_model_that_does_not_tell_its_usage_is_missing_and_says_so(
    ask: Callable[..., Any], runner: Callable[[Walker], SiteRunner], client: TestClient
) -> None:
    run = ask(max_cost=0.03, **POLICY).json()["run"]
    runner(Walker(tokens=None)).play(ticket_of(run), independent(run))
    told = client.get(f"/v1/predict/{run}").json()
    assert (told["status"], told["score"]) == ("missing", None)
    assert "does not say how many tokens" in told["reason"]


def test_a_run_is_given_up_after_its_own_time_and_its_status_says_so(
    ask: Callable[..., Any], runner: Callable[[Walker], SiteRunner], client: TestClient
) -> None:
    limited, free = ask(max_time_minutes=0.5, **POLICY).json()["run"], ask(**POLICY).json()["run"]
    playing = runner(Walker())
    assert (playing.limit_s(ticket_of(limited)), playing.limit_s(ticket_of(free))) == (30, Terms().timeout_s)
    playing.give_up(ticket_of(limited))
    told = client.get(f"/v1/predict/{limited}").json()
    assert (told["status"], told["score"]) == ("missing", None)
    assert told["reason"] == "platform_error: it took longer than 30 s"


def test_a_run_waits_for_a_header_that_is_not_set_and_goes_on_when_it_is(
    ask: Callable[..., Any], play: Callable[[], int], client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ask(_browser_extra_headers={"x-preview": "$FLYWHEEL_PAGE_PREVIEW"}).json()["run"]
    waiting = client.post(f"/v1/predict/{run}/resume")
    assert (waiting.status_code, "waits for a worker" in waiting.text) == (409, True), waiting.text
    assert play() == 1
    parked = client.get(f"/v1/predict/{run}").json()
    assert (parked["status"], parked["is_over"]) == ("parked", False)
    assert "FLYWHEEL_PAGE_PREVIEW is not set" in parked["reason"]
    monkeypatch.setenv("FLYWHEEL_PAGE_PREVIEW", "open sesame")
    resumed = client.post(f"/v1/predict/{run}/resume")
    assert (resumed.status_code, resumed.json()["status"]) == (202, "queued"), resumed.text
    assert play() == 0
    assert client.get(f"/v1/predict/{run}").json()["status"] == "failed"
    logged = client.get(f"/v1/predict/{run}/logs").text + client.get("/v1/events", params={"limit": 1000}).text
    assert "open sesame" not in logged
    ended = client.post(f"/v1/predict/{run}/resume")
    assert (ended.status_code, "has ended: failed" in ended.text) == (409, True), ended.text


def test_headers_are_sent_with_the_pages_of_their_run_alone(
    ask: Callable[..., Any], runner: Callable[[Walker], SiteRunner], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_PAGE_PREVIEW", "open sesame")
    run, other = ask(_browser_extra_headers={"x-preview": "$FLYWHEEL_PAGE_PREVIEW"}, **POLICY), ask(**POLICY)
    playing, sent = runner(Walker()), []
    for each in (run, other):
        ticket = ticket_of(each.json()["run"])
        met = playing._meet(ticket)
        assert met is not None
        with means_of_run(house, met.means, ticket, independent(ticket.spec)) as means:
            assert isinstance(means.executor, TermedExecutor)
            sent.append(means.executor.terms.page_headers)
    assert sent == [{"x-preview": "open sesame"}, {}]


@pytest.mark.parametrize(
    "failure", [OSError("the worker's machine"), ModelUnreachable(url="", actual="", tries=1, timeout_s=1)]
)
def test_another_attempt_at_a_run_does_not_ask_for_answers_that_were_given(
    failure: Exception, ask: Callable[..., Any], runner: Callable[[Walker], SiteRunner], house: House
) -> None:
    run = ask(**POLICY).json()["run"]
    walker = Walker(fails={4: failure})
    state = independent(run)
    if isinstance(failure, OSError):
        with pytest.raises(OSError, match="machine"):
            runner(walker).play(ticket_of(run), state)
        runner(walker).play(ticket_of(run), state)
    else:
        runner(walker).play(ticket_of(run), state)  # its next try
    calls = sum(isinstance(each.event, ModelCalled) for each in house.store.read(stream=f"run/{run}"))
    assert (calls, len(walker.asked)) == (len(PAGES), len(PAGES) + 1)  # one request failed
    with house.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM profiles").scalar_one() == 0


def test_a_parked_run_is_resumed_alone(ask: Callable[..., Any], house: House) -> None:
    runs = [ask(seed=seed).json()["run"] for seed in (3, 4)]
    queue = RolloutQueue(house.engine, "marketplace")
    with house.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE procrastinate_jobs SET status = 'doing'")
        connection.exec_driver_sql("SELECT procrastinate_finish_job_v1(id, 'failed', false) FROM procrastinate_jobs")
    assert len(queue.parked_jobs()) == len(runs)
    assert queue.resume(ticket_of(runs[0]).sweep, runs[0])
    assert [each.ticket.spec for each in queue.parked_jobs()] == [runs[1]]
