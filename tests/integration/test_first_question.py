"""`flywheel run` and `gate run` ask a model server one question first: what it lacks is said once, before any run.

It is the server of a policy, of a loop, of policies whose weights it loads, or of an agent of one's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.responses import JSONResponse

from agents.envs.provider import Site
from api.controllers.fast import Controller
from api.house import House
from tests.admitted import admitted
from tests.integration.test_policy_rollouts import action
from tests.model_server import Asked, ModelServer, chat_completion, model_server
from tests.outside import write_agents
from tests.sites import SharedSite

from .test_cli import Flywheel, flywheel

__all__ = ["flywheel"]

RUN = ("run", "--executor", "policy", "--rounds", "1", "--seeds", "1")
GATE = ("gate", "run", "--challenger", "base@395", "--executor", "delegation", "--test", "bootstrap")
AGENT = ("run", "--agent", "python:strangers:buy", "--rounds", "1", "--seeds", "1")
FINISH = action("finish")


@pytest.fixture
def asked(
    shared_site: SharedSite, house: House, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ModelServer, tuple[str, ...]]]:
    """A model server that returns no logprobs, though the settings promise them, and options that name the site."""

    def without_logprobs(call: Asked) -> JSONResponse:
        return JSONResponse(chat_completion(call.body, FINISH, logprobs=None))

    site: Site = shared_site("marketplace")
    admitted(house.store, "marketplace")
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    monkeypatch.setenv("FLYWHEEL_MODEL", "m1")
    with model_server(without_logprobs) as upstream:
        monkeypatch.setenv("FLYWHEEL_MODEL_URL", upstream.url)
        yield upstream, ("--url", site.url, "--admin-url", site.admin_url)


def name_base(monkeypatch: pytest.MonkeyPatch, *, loads: bool) -> None:
    """Have the settings say that the server loads weights by name, or not."""
    if loads:
        monkeypatch.setenv("FLYWHEEL_MODEL_BASE", "b" * 64)


@pytest.mark.parametrize(
    ("words", "loads"),
    [(RUN, False), (GATE, False), (RUN, True), (GATE, True), (AGENT, True)],
    ids=["run", "gate", "run-loads", "gate-loads", "agent-loads"],
)
def test_an_endpoint_without_logprobs_is_said_once_before_a_run_is_lost(
    words: tuple[str, ...],
    loads: bool,
    flywheel: Flywheel,
    house: House,
    asked: tuple[ModelServer, tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name_base(monkeypatch, loads=loads)
    write_agents(tmp_path)
    monkeypatch.chdir(tmp_path)
    head = house.store.head()
    code, _, err = flywheel(*words, *asked[1])
    assert (code, err.count("returned no logprobs"), "FLYWHEEL_MODEL_LOGPROBS=false" in err) == (1, 1, True), err
    assert (len(asked[0].asked), house.store.head()) == (1, head)


def test_the_server_of_an_agent_is_asked_for_no_logprobs_unless_it_loads_checkpoints(
    flywheel: Flywheel,
    asked: tuple[ModelServer, tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_agents(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Controller, "run", lambda _controller: "seen")
    code, _, err = flywheel(*AGENT, *asked[1])
    assert (code, "logprobs" in err) == (0, False), err
    assert [call.body.get("logprobs") for call in asked[0].asked] == [None]


@pytest.mark.parametrize("loads", [False, True])
def test_who_goes_without_logprobs_plays_without_them(
    loads: bool,
    flywheel: Flywheel,
    asked: tuple[ModelServer, tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name_base(monkeypatch, loads=loads)
    offered: list[bool] = []

    def stop_at_once(controller: Controller) -> str:
        offered.append(controller.executor.offers_logprobs)
        return "seen"

    monkeypatch.setattr("api.cli.sweep_setup.go_without_logprobs", lambda: True)
    monkeypatch.setattr(Controller, "run", stop_at_once)
    code, _, err = flywheel(*RUN, *asked[1])
    assert (code, offered, len(asked[0].asked)) == (0, [False], 1), err
