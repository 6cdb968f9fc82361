"""Who may write to a run from outside: the token that opened it, and an operator's; over every route that writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.house import House
from api.routes.roles import EVENTS
from api.run_owners import RunOpeners
from api.tokens import issue
from eventlog.archive.drop import drop
from eventlog.archive.write import archive
from eventlog.database import open_engine
from eventlog.events import TokenRole
from eventlog.store import Position
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

from .test_rest_time import EVERY

RUN, GROUP = "ext-a", "ext-g"
WRITES = ("POST", "/v1/events"), ("POST", "/v1/runs/{run_id}/reward")
OF_OTHERS = (
    ("POST", "/v1/runs/{run_id}/opinion"),
    ("POST", "/v1/predict/{run_id}/cancel"),
    ("POST", "/v1/predict/{run_id}/resume"),
)
"""Routes that may write to runs of somebody else: a judge's word under its own name, a prediction's end or resume."""


@pytest.fixture(autouse=True)
def archive_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test archives."""
    monkeypatch.setenv("FLYWHEEL_ARCHIVE", str(tmp_path))
    return tmp_path


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


@pytest.fixture
def headers(house: House) -> Mapping[str, dict[str, str]]:
    """The headers of the token that opens the run, of another agent's, and of an operator's."""
    roles: dict[str, TokenRole] = {"own": "ingest", "other": "ingest", "operator": "operate", "root": "admin"}
    return {name: {"Authorization": f"Bearer {issue(house.store, name, 'test', roles[name])}"} for name in roles}


def opening(run: str = RUN) -> dict[str, Any]:
    """The first event of a run from outside."""
    started = sample("RunStarted", run=run, arm=None).model_dump(mode="json")
    spec = started["spec"] | {"spec_id": run, "group_id": GROUP, "sweep": "ext-s"}
    return {**started, "spec": spec}


def of_run(kind: str) -> dict[str, Any]:
    """An event of a type, about that run."""
    if kind == "RunStarted":
        return opening()
    event: dict[str, Any] = sample(kind, run=RUN).model_dump(mode="json")
    return event | ({"group": GROUP} if "group" in event else {})


def appended(client: TestClient, event: dict[str, Any], headers: dict[str, str], **more: object) -> tuple[int, str]:
    body = {"stream": f"run/{event['run']}", "events": [event], **more}
    answer = client.post("/v1/events", json=body, headers=headers)
    return answer.status_code, answer.json().get("error", {}).get("type", "")


def test_no_route_that_writes_to_a_run_is_left_out_here() -> None:
    found = {(method, path) for method, path in EVERY if method != "GET" and ("run_id" in path or "events" in path)}
    assert found == {*WRITES, *OF_OTHERS}


def test_a_run_is_written_to_by_the_token_that_opened_it_and_by_operators(
    client: TestClient, house: House, headers: Mapping[str, dict[str, str]]
) -> None:
    assert appended(client, opening(), headers["own"]) == (201, "")
    head = house.store.head()
    kinds = [kind for kind, role in EVENTS.items() if role == "ingest"]
    assert len(kinds) > 5
    for kind in kinds:
        for more in ({}, {"expect": 1}, {"key": "mine"}):
            assert appended(client, of_run(kind), headers["other"], **more) == (403, "OthersRun"), kind
    reward = {"score": 1, "passed": True}
    refused = client.post(f"/v1/runs/{RUN}/reward", json=reward, headers=headers["other"])
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "OthersRun")
    assert "operate" in refused.json()["error"]["message"]
    assert house.store.head() == head

    assert appended(client, of_run("StepTaken"), headers["own"]) == (201, "")
    assert appended(client, of_run("InstanceReset"), headers["operator"]) == (201, "")
    assert appended(client, of_run("InstanceReset"), headers["root"]) == (201, "")
    assert client.post(f"/v1/runs/{RUN}/reward", json=reward, headers=headers["operator"]).status_code == 200
    actors = [each.actor for each in house.store.read(stream=f"run/{RUN}")]
    assert actors == ["api:own", "api:own", "api:operator", "api:root", "api:operator", "api:operator"]


def test_a_reward_of_ones_own_run_is_appended_as_its_opener(
    client: TestClient, house: House, headers: Mapping[str, dict[str, str]]
) -> None:
    appended(client, opening(), headers["own"])
    answer = client.post(f"/v1/runs/{RUN}/reward", json={"score": 1, "passed": True}, headers=headers["own"])
    assert answer.status_code == 200
    assert {each.actor for each in house.store.read(stream=f"run/{RUN}")} == {"api:own"}


def test_a_run_that_another_opens_meanwhile_is_not_written_to(
    client: TestClient, house: House, headers: Mapping[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    appended(client, opening(), headers["own"])
    openers, looks = house.run_openers, iter([True])
    find = RunOpeners.find
    monkeypatch.setattr(RunOpeners, "find", lambda self, run: None if next(looks, False) else find(openers, run))
    assert appended(client, of_run("RunFinished"), headers["other"]) == (403, "OthersRun")
    assert [each.event.type for each in house.store.read(stream=f"run/{RUN}")] == ["RunStarted"]


def test_a_retry_and_a_stale_expectation_are_answered_as_before(
    client: TestClient, headers: Mapping[str, dict[str, str]]
) -> None:
    assert appended(client, opening(), headers["own"], expect=3) == (409, "AppendConflict")
    assert appended(client, opening(), headers["own"], key="k") == (201, "")
    assert appended(client, opening(), headers["own"], key="k") == (200, "")
    assert appended(client, opening(), headers["own"], expect=0) == (409, "AppendConflict")
    assert appended(client, of_run("StepTaken"), headers["own"], key="k") == (409, "AppendKeyReused")


def test_the_opener_of_an_archived_run_is_found(
    client: TestClient,
    house: House,
    headers: Mapping[str, dict[str, str]],
    empty_database: Database,
    archive_folder: Path,
) -> None:
    for run in (RUN, "ext-b", "ext-c"):
        appended(client, opening(run), headers["own"])
    del house.__dict__["run_openers"]  # which remembered them
    owner = open_engine(empty_database.owner_url, "default")
    kept_from = Position(house.store.head() - 1)
    archive(owner, archive_folder, kept_from, size=3)
    drop(owner, archive_folder, kept_from)
    assert appended(client, of_run("StepTaken"), headers["other"]) == (403, "OthersRun")
    assert appended(client, of_run("StepTaken"), headers["own"]) == (201, "")
    owner.dispose()
