"""Recovery with a model: what a real server says of a run that failed on a real site is tried before it is proposed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from agents.envs.provider import Site
from agents.models.errors import ModelUnreachable
from agents.models.model import ChatMessage, CompletionRequest
from api.cli.main import run_command
from api.errors import NoModel
from api.house import House
from api.settings import Settings
from api.sweeps.advisor import PATIENCE, advisor_of, patience_within
from benchmarks.shipped import template
from eventlog.events import (
    InsertSteps,
    ModelCalled,
    RecoveryDecided,
    RewriteProposed,
    Sampling,
    Step,
)
from projections.rewards import REWARDS
from tests.admitted import admitted
from tests.conftest import Database
from tests.model_server import Asked, ModelServer, model_server
from tests.sites import SharedSite

TASK = "marketplace.control_draw"
ASTRAY = (
    Step(type="navigate", intent="start on the first page", url="/"),
    Step(type="fill_field", intent="say who enters", label="Email", value="alex.morgan@example.com"),
    Step(type="submit", intent="enter the draw", label="Enter the draw"),
)
"""The way to the draw is left out, and no page that recovery looks at has its form."""

WAY = Step(type="navigate", intent="navigate /draw", url="/draw", optional=True)
Flywheel = Callable[..., tuple[int, str]]


def said(where: str, action: str, target: str) -> str:
    return json.dumps({"where": where, "action": action, "target": target, "value": ""})


THE_WAY = said("before", "navigate", "/draw")


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(autouse=True)
def no_cure_of_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery would find the way to the draw itself, by cures of several steps."""
    monkeypatch.setattr("agents.learning.recovery.recover.sequences", lambda *_: ())


@pytest.fixture
def adviser(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server whose model the settings name for recovery; it knows the way unless a test says otherwise."""
    with model_server(lambda _: THE_WAY) as running:
        monkeypatch.setenv("FLYWHEEL_RECOVERY_URL", running.url)
        monkeypatch.setenv("FLYWHEEL_RECOVERY_MODEL", "adviser")
        monkeypatch.setenv("FLYWHEEL_RECOVERY_KEY", "secret-key")
        yield running


@pytest.fixture
def flywheel(
    site: Site,
    empty_database: Database,
    empty_house: House,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Flywheel:
    """Run a command on an empty log and the running, admitted site: exit code and what is printed."""
    admitted(empty_house.store, "marketplace")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command([*arguments, "--url", site.url, "--admin-url", site.admin_url])
        return code, " ".join(" ".join(capsys.readouterr()).split())

    return run


@pytest.fixture
def sweep(tmp_path: Path) -> tuple[str, ...]:
    """The command that plays the plan without the way at one seed."""
    file = tmp_path / "templates.json"
    found = template(TASK, "Enter the draw.").model_copy(update={"plan_steps": ASTRAY})
    file.write_text(json.dumps([found.model_dump(mode="json")]))
    return ("rollout", "sweep", "marketplace", "--templates", str(file), "--seeds", "0", "--siblings", "1")


def proposed(house: House) -> list[RewriteProposed]:
    events = (recorded.event for recorded in house.store.read(types=["RewriteProposed"]))
    return [event for event in events if isinstance(event, RewriteProposed)]


def calls(house: House) -> list[ModelCalled]:
    events = (recorded.event for recorded in house.store.read(types=["ModelCalled"]))
    return [event for event in events if isinstance(event, ModelCalled)]


def decided(house: House) -> list[tuple[str, str]]:
    events = (recorded.event for recorded in house.store.read(types=["RecoveryDecided"]))
    return [(event.mode, event.reason) for event in events if isinstance(event, RecoveryDecided)]


def test_a_failing_run_gets_a_proposal_of_the_model_that_was_tried_on_the_site(
    flywheel: Flywheel, empty_house: House, sweep: tuple[str, ...], adviser: ModelServer
) -> None:
    assert flywheel(*sweep, "--learn")[0] == 0
    (event,) = proposed(empty_house)
    assert (event.source, event.change) == ("model", InsertSteps(steps=(WAY,), where="before"))
    (asked,) = adviser.asked
    assert (asked.body["model"], asked.headers["authorization"]) == ("adviser", "Bearer secret-key")
    assert "say who enters" in asked.text
    (call,) = calls(empty_house)
    assert (call.run, call.role, call.model) == (event.run, "recovery", "adviser-served")
    assert (call.input_tokens, call.output_tokens) == (11, len(THE_WAY))
    assert decided(empty_house)[-1] == ("insert_steps", "proposed")


@pytest.mark.parametrize(
    "answer",
    [
        "Look harder.",
        said("before", "navigate", "https://elsewhere.test/draw"),
        said("before", "navigate", "/draw\0"),
        said("before", "navigate", "/nowhere"),
        said("before", "click", "A link that is not there"),
        said("instead", "click", "About"),
    ],
)
def test_a_useless_proposal_is_refused_and_its_call_stays(
    answer: str, flywheel: Flywheel, empty_house: House, sweep: tuple[str, ...], adviser: ModelServer
) -> None:
    adviser.answer = lambda _: answer
    assert flywheel(*sweep, "--learn")[0] == 0
    assert proposed(empty_house) == []
    assert [call.role for call in calls(empty_house)] == ["recovery"]
    assert decided(empty_house)[-1] == ("halt", "no_such_control")
    assert len(empty_house.views().find(REWARDS)) == 1


def broken(_: Asked) -> Response:
    return JSONResponse({"error": {"message": "out of order"}}, status_code=500)


def refused(_: Asked) -> Response:
    return JSONResponse({"error": {"message": "who is secret-key?"}}, status_code=401)


@pytest.mark.parametrize(("answer", "why"), [(broken, "ModelOverloaded"), (refused, "ModelRefused")])
def test_a_model_that_fails_loses_no_run_and_is_told_of(
    answer: Callable[[Asked], Response],
    why: str,
    flywheel: Flywheel,
    empty_house: House,
    sweep: tuple[str, ...],
    adviser: ModelServer,
) -> None:
    adviser.answer = answer
    code, err = flywheel(*sweep, "--seeds", "0,1", "--learn")
    assert (code, err.count(why), "secret-key" in err) == (0, 1, False), err
    assert len(adviser.asked) >= 2
    assert len(empty_house.views().find(REWARDS)) == 2
    assert (proposed(empty_house), calls(empty_house)) == ([], [])


def test_who_learns_nothing_or_names_no_model_asks_none(
    flywheel: Flywheel,
    empty_house: House,
    sweep: tuple[str, ...],
    adviser: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert flywheel(*sweep)[0] == 0
    monkeypatch.delenv("FLYWHEEL_RECOVERY_MODEL")
    assert flywheel(*sweep, "--learn")[0] == 0
    assert (adviser.asked, proposed(empty_house)) == ([], [])
    assert decided(empty_house) == [("halt", "no_such_control")]


def test_a_worker_asks_it_too(
    flywheel: Flywheel, empty_house: House, sweep: tuple[str, ...], adviser: ModelServer
) -> None:
    assert flywheel(*sweep, "--learn", "--plan-only")[0] == 0
    assert adviser.asked == []
    assert flywheel("worker", "--until-empty")[0] == 0
    assert [event.source for event in proposed(empty_house)] == ["model"]


def test_the_controller_asks_it_and_says_what_it_cost(
    flywheel: Flywheel, empty_house: House, adviser: ModelServer
) -> None:
    adviser.answer = lambda _: said("before", "click", "About")
    code, err = flywheel("run", "--rounds", "1", "--seeds", "3", "--cluster", "control")
    assert code == 0, err
    assert {call.role for call in calls(empty_house)} == {"recovery"}
    assert len(calls(empty_house)) == len(adviser.asked) > 0
    assert "on recovery's model" in err


def test_a_model_that_hangs_is_not_waited_for_longer_than_a_share_of_the_run() -> None:
    question = CompletionRequest((ChatMessage("user", ("?",)),), Sampling(temperature_micro=0, max_tokens=1))
    free, told = threading.Event(), list[str]()

    def hang(_: Asked) -> str:
        free.wait()
        return "late"

    with model_server(hang) as server:
        settings = Settings(recovery_model="m", recovery_url=server.url)
        try:
            with advisor_of(settings, told.append, timeout_s=0.4) as model:
                assert model is not None
                for _ in range(2):
                    with pytest.raises(ModelUnreachable):
                        model.complete(question)
        finally:
            free.set()
    assert len(told) == 1


def test_how_long_an_answer_is_waited_for() -> None:
    assert patience_within(None) == patience_within(900) == PATIENCE
    assert patience_within(8).timeout_s == 2


def test_an_endpoint_that_takes_no_request_without_a_key_is_refused_at_once() -> None:
    settings = Settings(recovery_model="m", recovery_api="anthropic")
    with pytest.raises(NoModel), advisor_of(settings, print, timeout_s=None):
        pass
    with advisor_of(settings, print, timeout_s=None, is_asked=False) as model:
        assert model is None
