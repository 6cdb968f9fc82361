"""`POST /v1/predict`: a run is asked for, waits for a worker, is played, looked at and called off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from agents.envs.provider import Site
from agents.rollouts.dispatching.queue import RolloutQueue
from api.cli.main import run_command
from api.house import House
from api.queries.predictions import planned_prediction
from tests.admitted import admitted
from tests.conftest import Database
from tests.sites import SharedSite

CONTROL = "marketplace.control_draw"
POLICY: dict[str, Any] = {"executor": "policy"}
ASKED: dict[str, Any] = {"environment": "marketplace", "task": CONTROL, "instruction": "draw", "seed": 3}


@pytest.fixture
def house(empty_house: House) -> House:
    admitted(empty_house.store, "marketplace")
    return empty_house


Ask = Callable[..., Any]


@pytest.fixture
def ask(client: TestClient) -> Ask:
    """Ask for a run; fields with the value None are left out."""

    def post(*, key: str | None = None, **further: Any) -> Any:
        body = {name: value for name, value in {**ASKED, **further}.items() if value is not None}
        return client.post("/v1/predict", json=body, headers={} if key is None else {"Idempotency-Key": key})

    return post


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture
def play(site: Site, empty_database: Database, house: House, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Have a worker play all that waits."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    return lambda: run_command(["worker", "--until-empty", "--url", site.url, "--admin-url", site.admin_url])


def test_a_run_is_asked_for_played_by_a_worker_and_read(
    ask: Ask, client: TestClient, play: Callable[[], int], house: House
) -> None:
    asked = ask()
    assert asked.status_code == 202, asked.text
    run = asked.json()["run"]
    assert (asked.json()["status"], asked.json()["is_over"]) == ("queued", False)
    assert client.get(f"/v1/predict/{run}/logs").json() == {"events": [], "next": None}
    assert play() == 0
    over = client.get(asked.json()["status_path"]).json()
    assert (over["status"], over["is_over"]) == ("passed", True)
    assert over["score"] == client.get(over["run_path"]).json()["reward"]["score"]
    logged = client.get(f"/v1/predict/{run}/logs", params={"limit": 1}).json()
    assert [each["type"] for each in logged["events"]] == ["RunStarted"]
    rest = client.get(f"/v1/predict/{run}/logs", params={"after": logged["next"]}).json()
    assert "RewardGraded" in [each["type"] for each in rest["events"]]
    cancelled = client.post(f"/v1/predict/{run}/cancel").json()
    assert cancelled["status"] == "passed"  # what is over stays as it is
    assert planned_prediction(house.store, run)[0].learns is False


def test_the_same_key_gives_the_same_run_and_another_request_with_it_is_refused(ask: Ask, house: House) -> None:
    first, again, other = ask(key="k1"), ask(key="k1"), ask(key="k1", seed=4)
    assert first.json()["run"] == again.json()["run"]
    assert (other.status_code, other.json()["error"]["type"]) == (409, "PredictionDiffers")
    assert ask(key="k2").json()["run"] != first.json()["run"]
    assert RolloutQueue(house.engine, "marketplace").open() == 2


def test_a_waiting_run_that_is_called_off_is_not_played(ask: Ask, client: TestClient, play: Callable[[], int]) -> None:
    run, other = ask().json()["run"], ask(seed=4).json()["run"]
    assert client.post(f"/v1/predict/{run}/cancel").json()["status"] == "cancelled"
    assert client.post(f"/v1/predict/{run}/cancel").json()["status"] == "cancelled"
    assert play() == 0
    assert client.get(f"/v1/predict/{run}").json()["status"] == "cancelled"
    assert client.get(f"/v1/predict/{other}").json()["status"] == "passed"
    assert "RewardGraded" not in [each["type"] for each in client.get(f"/v1/predict/{run}/logs").json()["events"]]


def test_runs_of_a_fan_out_group_are_siblings_of_one_instance(ask: Ask, house: House) -> None:
    group = {"_fanout_group_id": "g 1"}
    runs = [ask(**group).json()["run"] for _ in range(3)]
    specs = [planned_prediction(house.store, run)[1] for run in runs]
    assert [spec.sibling_index for spec in specs] == [0, 1, 2]
    assert len({spec.group_id for spec in specs}) == 1
    refused = ask(seed=4, **group)
    assert (refused.status_code, refused.json()["error"]["type"]) == (409, "PredictionDiffers")


def test_a_state_key_is_used_by_one_run_at_a_time(ask: Ask, client: TestClient) -> None:
    session = {"executor": "browser", "profile_id": "p", "workflow_id": "w"}
    first = ask(**session)
    assert first.status_code == 202, first.text
    taken = ask(executor="browser", state_key="p/w")
    assert (taken.status_code, taken.json()["error"]["facts"]["run"]) == (409, first.json()["run"])
    assert ask(executor="browser", state_key="other").status_code == 202
    client.post(f"/v1/predict/{first.json()['run']}/cancel")
    assert ask(**session).status_code == 202


@pytest.mark.parametrize(
    ("further", "status", "words"),
    [
        ({"task": "nope"}, 422, "expected one of marketplace."),
        ({"environment": "helpdesk"}, 422, "that `flywheel env probe` admitted"),
        ({"instruction": None}, 422, "`instruction`, which this suite leaves"),
        ({"max_steps": 201}, 422, "less than or equal to 200"),
        ({"max_dollars": 5}, 422, "max_dollars"),
        ({"profile_id": "p"}, 422, "both of profile_id and workflow_id"),
        ({"state_key": "k", "executor": "policy", "model": "m1"}, 422, "a session of the executor policy"),
        ({"_sampling_temperature": 0.5}, 422, "the executor policy, which alone"),
        ({"_lora_adapter": "/nowhere/a"}, 422, "the executor policy, which alone"),
        ({"_lora_adapter": "/nowhere/a", "executor": "policy"}, 422, "Nothing lies at the reference"),
        ({"_lora_adapter": "/a", "_challenger_model": "/b.gguf"}, 422, "Two challengers are named"),
        (POLICY | {"_lora_adapter": "/a", "_lora_scale": 0.5}, 422, "_lora_scale is 0.5, expected 1, because a run"),
        (POLICY | {"_lora_adapter": "/a", "_lora_scale": -1}, 422, "_lora_scale is -1"),
        (POLICY | {"_lora_adapter": "/a", "_lora_max_rank": 0}, 422, "_lora_max_rank is 0"),
        (POLICY | {"_lora_adapter": "/a", "_lora_name": "mine", "_lora_max_rank": 8}, 422, "Nothing lies at"),
        (POLICY | {"_lora_name": "mine"}, 422, "no reference"),
        ({"executor": "policy"}, 422, "FLYWHEEL_MODEL is not set"),
        ({"seed": 10_000}, 422, "10000"),
        ({"task_suite": {"name": "x"}}, 422, "task_suite"),
    ],
)
def test_what_cannot_be_played_is_refused_and_nothing_is_planned(
    further: dict[str, Any], status: int, words: str, ask: Ask, house: House
) -> None:
    refused = ask(**further)
    assert (refused.status_code, words in refused.text) == (status, True), refused.text
    assert "SweepPlanned" not in house.store.counts()


def test_a_suite_in_the_body_is_played_with_its_own_plan(ask: Ask, client: TestClient, play: Callable[[], int]) -> None:
    suite = {
        "name": "own",
        "environment": "marketplace",
        "tasks": [
            {
                "id": "mine",
                "oracle_task": CONTROL,
                "instruction": "do nothing of use",
                "plan": [{"type": "navigate", "intent": "open the boats page", "url": "/boats"}],
            }
        ],
    }
    asked = ask(task="mine", task_suite=suite, instruction=None)
    assert asked.status_code == 202, asked.text
    assert play() == 0
    assert client.get(asked.json()["status_path"]).json()["status"] == "failed"


def test_a_run_that_nobody_asked_for_is_not_found(client: TestClient) -> None:
    for run in ("predict-1__t__seed1__s0", "s1__t__seed1__s0"):
        assert client.get(f"/v1/predict/{run}").status_code == 404
        assert client.post(f"/v1/predict/{run}/cancel").status_code == 404
