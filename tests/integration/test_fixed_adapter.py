"""FLYWHEEL_LORA_ADAPTER at the host of predictions: one adapter for the deployment plays as one that requests name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.cli.main import run_command
from api.house import House
from api.serving.challengers import refuse_unknown_adapter
from api.sweeps.plan import first_facts
from eventlog.events import ModelCalled, RunStarted
from tests.admitted import admitted
from tests.conftest import Database
from tests.model_server import Asked, model_server
from tests.remote_flywheel import BASE, unread_checkpoint
from tests.sites import SharedSite

from .test_capture_proxy import completion_of
from .test_challenger_references import record
from .test_policy_rollouts import action, rule

ASKED: dict[str, Any] = {
    "environment": "marketplace",
    "task": "marketplace.phone_reveal",
    "instruction": "find the phone number",
    "executor": "policy",
    "_sampling_temperature": 0,
}


@pytest.fixture
def house(empty_house: House) -> House:
    admitted(empty_house.store, "marketplace")
    first_facts(empty_house)
    return empty_house


@dataclass(frozen=True)
class Played:
    """How a run ended, by which weights, and the token ids of all its answers."""

    status: str
    weights: str
    tokens: tuple[tuple[int, ...], ...]


def played(house: House, client: TestClient, run: str) -> Played:
    events = [each.event for each in house.store.read(stream=f"run/{run}")]
    (start,) = (each for each in events if isinstance(each, RunStarted))
    calls = (each for each in events if isinstance(each, ModelCalled))
    tokens = tuple(tuple(completion_of(house, each)["samples"][0]["token_ids"]) for each in calls)
    return Played(client.get(f"/v1/predict/{run}").json()["status"], start.artifact.weights, tokens)


def answer(asked: Asked) -> str:
    """The base gives up, every adapter finds the phone number."""
    assert asked.body["temperature"] == 0
    return rule(asked) if "+" in asked.body["model"] else action("finish")


def test_an_adapter_of_the_deployment_plays_and_draws_as_one_that_a_request_names(
    house: House,
    empty_database: Database,
    client: TestClient,
    shared_site: SharedSite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, saved = shared_site("marketplace"), unread_checkpoint(tmp_path / "store")
    reference = f"store:/{saved.digest}/peft"
    record(house, saved)
    with model_server(answer) as server:
        named = {"model": "m1", "model_url": server.url, "model_base": BASE, "mounts": {"store": tmp_path / "store"}}
        open_host, fixed_host = (
            replace(house, settings=house.settings.model_copy(update=named | {"lora_adapter": fixed}))
            for fixed in (None, reference)
        )
        application: Any = client.app

        def ask(host: House, **further: Any) -> Any:
            application.state.house = host
            return client.post("/v1/predict", json={**ASKED, **further})

        named_here = {"_lora_adapter": reference}
        asked = [ask(open_host), ask(open_host, **named_here), ask(fixed_host), ask(fixed_host, **named_here)]
        assert [each.status_code for each in asked] == [202] * 4, [each.text for each in asked]
        runs = [each.json()["run"] for each in asked]
        other = ask(fixed_host, _lora_adapter="store:/other")
        assert (other.status_code, "Two challengers are named" in other.text) == (422, True)
        without_weights = ask(fixed_host, executor="plan", _sampling_temperature=None)
        assert without_weights.status_code == 202, without_weights.text
        for name, value in {
            "DATABASE_URL": empty_database.app_url,
            "OWNER_URL": empty_database.owner_url,
            "KEYS": str(empty_database.keys),
            "ENV_ADMIN_TOKEN": site.admin_token,
            "MODEL": "m1",
            "MODEL_URL": server.url,
            "MODEL_BASE": BASE,
            "MODEL_TOKEN_IDS": "true",
            "MOUNTS": f'{{"store": "{tmp_path / "store"}"}}',
            "MODELS": str(tmp_path / "models"),
        }.items():
            monkeypatch.setenv(f"FLYWHEEL_{name}", value)
        client.post(f"/v1/predict/{without_weights.json()['run']}/cancel")
        where = ("--url", site.url, "--admin-url", site.admin_url)
        assert run_command(["worker", "--until-empty", "--executor", "policy", *where]) == 0
    base, by_request, fixed, both = (played(house, client, run) for run in runs)
    assert (base.status, base.weights) == ("failed", "base")
    assert (by_request.status, by_request.weights) == ("passed", saved.digest)
    assert by_request == fixed == both
    assert all(by_request.tokens)


def test_an_adapter_of_the_deployment_that_is_not_there_is_an_error_before_a_server_listens(
    house: House,
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refuse_unknown_adapter(house)
    monkeypatch.setattr("api.cli.serve.listen", lambda *_: pytest.fail("it listens"))
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_LORA_ADAPTER", "/nowhere/ck")
    assert run_command(["serve", "--port", "0"]) == 1
    assert "Nothing lies at the reference /nowhere/ck" in " ".join(capsys.readouterr().err.split())
