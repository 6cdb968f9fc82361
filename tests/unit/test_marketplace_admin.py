from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from agents.envs.sites.marketplace.app import build_site

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def admin() -> Iterator[TestClient]:
    with TestClient(build_site("http://pages.test:1", TOKEN).admin, headers={"X-Env-Admin": TOKEN}) as client:
        yield client


def minted(admin: TestClient, seed: int = 1) -> dict[str, str]:
    return {"X-Env-Instance": str(admin.post("/__env__/reset", json={"seed": seed}).json()["instance"])}


def test_reset_answers_what_it_did(admin: TestClient) -> None:
    answer = admin.post("/__env__/reset", json={"seed": 9})
    instance = answer.json()["instance"]
    url = f"http://pages.test:1/i/{instance}/"
    assert answer.json() == {"ok": True, "seed": 9, "repeat": 0, "instance": instance, "url": url}
    again = admin.post("/__env__/reset", json={"seed": 10}, headers={"X-Env-Instance": instance})
    assert (again.json()["instance"], again.json()["seed"]) == (instance, 10)
    assert admin.get("/__env__/state", headers={"X-Env-Instance": instance}).json()["seed"] == 10


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"{}", b'{"seed": "7"}', b'{"seed": 7.0}', b'{"seed": true}', b'{"seed": -1}',
     b'{"seed": 9007199254740992}', b'{"seed": null}', b"\xff", b"[" * 60_000, b" " * 70_000],
)  # fmt: skip
def test_a_reset_without_an_integer_seed_is_refused(admin: TestClient, body: bytes) -> None:
    answer = admin.post("/__env__/reset", content=body)
    assert answer.status_code == 422
    assert "seed" in answer.json()["error"]
    assert admin.get("/__env__/health").json()["instances"] == 0


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "ünicode"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "reset"), ("GET", "oracle"), ("GET", "mutations"), ("GET", "state"), ("POST", "close")],
)
def test_without_the_token_nothing_is_said(admin: TestClient, token: str, method: str, path: str) -> None:
    answer = admin.request(method, f"/__env__/{path}", headers={b"X-Env-Admin": token.encode()})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert answer.json()["error"]


def test_health_is_open_and_names_the_tasks(admin: TestClient) -> None:
    answer = admin.get("/__env__/health", headers={"X-Env-Admin": ""}).json()
    assert (answer["ok"], answer["site"], answer["instances"]) == (True, "marketplace", 0)
    assert {task["task_id"].removeprefix("marketplace."): task["cluster"] for task in answer["tasks"]} == {
        "lead_filtered_search": "navigation",
        "phone_reveal": "navigation",
        "engine_spec": "knowledge",
        "phone_after_contact": "policy",
        "price_watch": "noise",
        "control_draw": "control",
    }
    assert all(task["instruction"] for task in answer["tasks"])


@pytest.mark.parametrize("call", [("GET", "state"), ("GET", "oracle"), ("GET", "mutations"), ("POST", "close")])
def test_an_instance_must_be_named_and_open(admin: TestClient, call: tuple[str, str]) -> None:
    method, path = call
    assert admin.request(method, f"/__env__/{path}").status_code == 422
    answer = admin.request(method, f"/__env__/{path}", headers={"X-Env-Instance": "none"})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_instance")


def test_resetting_an_instance_that_is_not_open_is_refused(admin: TestClient) -> None:
    assert admin.post("/__env__/reset", json={"seed": 1}, headers={"X-Env-Instance": "none"}).status_code == 404


def test_an_unknown_task_is_told_from_a_failed_one(admin: TestClient) -> None:
    named = minted(admin)
    unknown = admin.get("/__env__/oracle", params={"task_id": "nope"}, headers=named)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_task")
    assert "marketplace.phone_reveal" in unknown.json()["known"]
    assert admin.get("/__env__/oracle", headers=named).status_code == 422
    failed = admin.get("/__env__/oracle", params={"task_id": "marketplace.phone_reveal"}, headers=named)
    assert (failed.status_code, failed.json()["passed"], failed.json()["score"]) == (200, False, 0.0)


@pytest.mark.parametrize("since", ["x", "-1", "1.5", "9" * 30, "²"])
def test_a_bad_since_is_refused(admin: TestClient, since: str) -> None:
    assert admin.get("/__env__/mutations", params={"since": since}, headers=minted(admin)).status_code == 422


def test_state_hides_the_family(admin: TestClient) -> None:
    state: dict[str, Any] = admin.get("/__env__/state", headers=minted(admin)).json()
    assert set(state) == {"site", "seed", "counts", "fingerprint"}


def test_other_addresses_and_methods_are_answered_in_json(admin: TestClient) -> None:
    assert admin.get("/__env__/nothing").json()["code"] == "no_endpoint"
    assert admin.get("/").status_code == 404
    assert admin.get("/__env__/reset").status_code == 405
