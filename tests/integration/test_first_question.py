"""`flywheel run` and `gate run` ask a policy's model one question first: what it lacks is said once, before any run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.responses import JSONResponse

from agents.envs.provider import Site
from api.controllers.fast import Controller
from api.house import House
from tests.admitted import admitted
from tests.integration.test_policy_rollouts import action
from tests.model_server import Asked, ModelServer, chat_completion, model_server
from tests.sites import SharedSite

from .test_cli import Flywheel, flywheel

__all__ = ["flywheel"]

RUN = ("run", "--executor", "policy", "--rounds", "1", "--seeds", "1")
GATE = ("gate", "run", "--challenger", "base@395", "--executor", "delegation", "--test", "bootstrap")
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


@pytest.mark.parametrize("words", [RUN, GATE], ids=["run", "gate"])
def test_an_endpoint_without_logprobs_is_said_once_before_a_run_is_lost(
    words: tuple[str, ...], flywheel: Flywheel, house: House, asked: tuple[ModelServer, tuple[str, ...]]
) -> None:
    head = house.store.head()
    code, _, err = flywheel(*words, *asked[1])
    assert (code, err.count("returned no logprobs"), "FLYWHEEL_MODEL_LOGPROBS=false" in err) == (1, 1, True), err
    assert (len(asked[0].asked), house.store.head()) == (1, head)


def test_who_goes_without_logprobs_plays_without_them(
    flywheel: Flywheel,
    asked: tuple[ModelServer, tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered: list[bool] = []

    def stop_at_once(controller: Controller) -> str:
        offered.append(controller.executor.offers_logprobs)
        return "seen"

    monkeypatch.setattr("api.cli.sweep_setup.go_without_logprobs", lambda: True)
    monkeypatch.setattr(Controller, "run", stop_at_once)
    code, _, err = flywheel(*RUN, *asked[1])
    assert (code, offered, len(asked[0].asked)) == (0, [False], 1), err
