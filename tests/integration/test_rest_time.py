"""As of, at least, and the position of every answer: over all routes there are, so that a new one cannot forget it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import BaseRoute

from api.app import create_app
from api.house import House
from api.tokens import issue
from eventlog.database import open_engine
from eventlog.events import PriceBookSet
from tests.conftest import house_on
from tests.shared import Copies

from .test_rest_samples import append, client_of

pytestmark = pytest.mark.reads

PRICES = PriceBookSet(version=2, per_action=1, per_second=1, per_thousand_input_tokens=1, per_thousand_output_tokens=1)
NO_STATE = frozenset(
    {"/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/blobs/{address}", "/v1/events/stream"}
    | {"/v1/predict/{run_id}", "/v1/predict/{run_id}/logs", "/v1/blobs", "/v1/log/counts"}
)
"""What answers of the service itself, not of the log at a position."""

EMPTY_HANDED = {
    ("GET", "/v1/artifacts/{name}"): 422,
    ("GET", "/v1/blobs"): 403,
    ("GET", "/v1/blobs/{address}"): 422,
    ("GET", "/v1/taint"): 422,
    ("GET", "/v1/tokens"): 403,
    ("GET", "/v1/webhooks"): 403,
    ("POST", "/v1/blobs"): 201,
    ("POST", "/v1/events"): 422,
    ("POST", "/v1/predict"): 422,
    ("POST", "/v1/runs/{run_id}/opinion"): 422,
    ("POST", "/v1/runs/{run_id}/reward"): 422,
    ("POST", "/v1/slices"): 422,
    ("POST", "/v1/traces"): 415,
}
"""What answers a request without a body or a question otherwise than 200, or 404 where its path names something."""


def routes_of(routes: list[BaseRoute]) -> Iterator[APIRoute]:
    """Every route of an application, those of its included routers too."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            router = getattr(route, "original_router", None) or getattr(route, "router", None)
            yield from routes_of([] if router is None else router.routes)


@cache
def paths() -> dict[str, dict[str, Any]]:
    """Each path with its methods, as the application describes it."""
    found: dict[str, dict[str, Any]] = create_app(cast("House", None)).openapi()["paths"]
    return found


READS = sorted(path for path, methods in paths().items() if "get" in methods and path not in NO_STATE)
EVERY = sorted((method.upper(), path) for path, methods in paths().items() for method in methods)
ANSWERS = [pytest.param(*each, marks=pytest.mark.writes if each[0] != "GET" else ()) for each in EVERY]


def needed(path: str) -> dict[str, str]:
    """The query parameters that a path cannot do without."""
    return {"/v1/diff": {"from": "1"}, "/v1/taint": {"subject": "nobody"}}.get(path, {})


def filled(path: str) -> str:
    """A path with names in it, and what it cannot do without."""
    named = path.replace("{digest}", "a" * 64).replace("{", "").replace("}", "")
    return f"{named}?from=1" if path == "/v1/diff" else named


def test_the_description_holds_every_route_so_that_none_escapes_these_tests() -> None:
    served = {
        (method, route.path.replace(":path", ""))
        for route in routes_of(list(create_app(cast("House", None)).routes))
        for method in route.methods or ()
    }
    described = {(method, path.removeprefix("/v1")) for method, path in EVERY}
    assert {(method, path.removeprefix("/v1")) for method, path in served} - {("GET", "/openapi.json")} == described
    assert len(READS) > 15


@pytest.mark.parametrize("path", READS)
def test_every_read_takes_as_of_and_at_least(path: str) -> None:
    taken = {(parameter["in"], parameter["name"]) for parameter in paths()[path]["get"]["parameters"]}
    assert {("query", "as_of"), ("query", "at_least"), ("header", "X-Log-At-Least")} <= taken


@pytest.fixture(scope="module")
def growing(copies: Copies) -> Iterator[tuple[TestClient, House]]:
    """A caller over a house on a golden log to which each test may append."""
    with copies() as create:
        database = create("seeded")
        engine = open_engine(database.app_url)
        house = house_on(engine, database)
        with client_of(house) as caller:
            caller.headers["Authorization"] = f"Bearer {issue(house.store, 'reader of all', 'test', 'admin')}"
            yield caller, house
        engine.dispose()


@pytest.mark.parametrize(("method", "path"), ANSWERS, ids=str)
def test_every_answer_names_its_position_whatever_it_is(method: str, path: str, client: TestClient) -> None:
    plainly = EMPTY_HANDED.get((method, path), 404 if "{" in path else 200)
    answers = [
        client.request(method, filled(path)),
        client.request(method, filled(path), params={"as_of": "nonsense", **needed(path)}),
        client.request("DELETE", filled(path)),
    ]
    refused = 403 if plainly == 403 and path not in NO_STATE else 422  # unknown parameters are refused to everybody
    assert [answer.status_code for answer in answers] == [plainly, refused, 405]
    assert [answer.headers.get("X-Log-Position") for answer in answers] == ["653"] * 3


@pytest.mark.writes
def test_every_other_answer_names_its_position_too(client: TestClient, house: House) -> None:
    assert client.get("/nowhere").headers["X-Log-Position"] == "653"
    assert client.get("/openapi.json").headers["X-Log-Position"] == "653"
    body = {"stream": "prices", "events": [PRICES.model_dump(mode="json")], "key": "p2"}
    assert client.post("/v1/events", json=body).headers["X-Log-Position"] == "654"
    repeated = client.post("/v1/events", json=body)
    assert (repeated.status_code, repeated.headers["X-Log-Position"]) == (200, "654")
    conflict = client.post("/v1/events", json={**body, "key": "p3", "expect": 7})
    assert (conflict.status_code, conflict.headers["X-Log-Position"]) == (409, "654")
    refused = client.post("/v1/events", json={"stream": "champion", "events": []})
    assert (refused.status_code, refused.headers["X-Log-Position"]) == (422, "654")


@pytest.mark.parametrize("path", READS)
def test_every_read_waits_for_what_the_caller_has_seen(path: str, growing: tuple[TestClient, House]) -> None:
    client, house = growing
    append(house.store, "prices", PRICES)
    head = house.store.head()
    for asked in ({"params": {"at_least": head}}, {"headers": {"X-Log-At-Least": str(head)}}):
        seen = client.get(filled(path).partition("?")[0], **_with_needed(path, asked))
        assert seen.status_code in {200, 404, 422 if "{name}" in path else 200}
        assert seen.headers["X-Log-Position"] == str(head)
    for beyond in (
        {"params": {"at_least": head + 1}},
        {"headers": {"X-Log-At-Least": str(head + 1)}},
        {"params": {"at_least": 1}, "headers": {"X-Log-At-Least": str(head + 1)}},
        {"params": {"at_least": head + 1, "as_of": 3}},
    ):
        answer = client.get(filled(path).partition("?")[0], **_with_needed(path, beyond))
        assert (answer.status_code, answer.json()["error"]["type"]) == (409, "NotThereYet")
        assert answer.json()["error"]["facts"] == {"expected": head + 1, "actual": head}
        assert answer.headers["X-Log-Position"] == str(head)


def _with_needed(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    return {**asked, "params": {**needed(path), **asked.get("params", {})}}


@pytest.mark.parametrize("wrong", ["-1", "x", "1.5", str(2**53)])
def test_at_least_of_no_position_is_refused(wrong: str, client: TestClient) -> None:
    assert client.get("/v1/champion", params={"at_least": wrong}).status_code == 422
    assert client.get("/v1/champion", headers={"X-Log-At-Least": wrong}).status_code == 422


def test_as_of_answers_of_then_while_at_least_holds_of_the_log(client: TestClient) -> None:
    answer = client.get("/v1/champion", params={"as_of": 3, "at_least": 600})
    assert (answer.json()["champion"]["name"], answer.headers["X-Log-Position"]) == ("base@0", "3")


# What changed ---------------------------------------------------------------------------------------------------------


def diff(client: TestClient, **asked: object) -> Any:
    return client.get("/v1/diff", params={name.rstrip("_"): str(value) for name, value in asked.items()})


def test_the_difference_over_rest_is_of_its_later_position(client: TestClient) -> None:
    answer = diff(client, from_=395, to=649)
    assert (answer.status_code, answer.headers["X-Log-Position"]) == (200, "649")
    found = answer.json()["diff"]
    assert (found["before"], found["after"]) == (395, 649)
    assert (found["champion"]["before"], found["champion"]["after"]) == ("base@0", "base@395")
    assert found["champion"]["moves"][0]["evaluation"] == "eval-1"
    assert found["verdicts"][0]["decision"] == "promote"
    assert found["rewrites"] == []


def test_the_difference_takes_times_and_ends_at_the_head_or_as_of(client: TestClient, house: House) -> None:
    began = next(iter(house.store.read(after=394, upto=395))).at  # type: ignore[arg-type]
    assert diff(client, from_=began.isoformat()).json()["diff"]["before"] == 395
    assert diff(client, from_=395).json()["diff"]["after"] == 653
    assert diff(client, from_=395, as_of=650).json()["diff"]["after"] == 650


@pytest.mark.parametrize(
    ("asked", "status", "kind"),
    [
        ({"from_": 9, "to": 5}, 422, "BackwardDifference"),
        ({"from_": 1, "to": 9_999}, 409, "NotThereYet"),
        ({"from_": 9_999}, 409, "NotThereYet"),
        ({"from_": 1, "to": 600, "as_of": 599}, 409, "NotThereYet"),
        ({"from_": "yesterday"}, 422, "BadPosition"),
        ({"from_": 1, "to": "soon"}, 422, "BadPosition"),
        ({"to": 5}, 422, "InvalidRequest"),
    ],
)
def test_a_difference_that_cannot_be_says_why(
    asked: dict[str, object], status: int, kind: str, client: TestClient
) -> None:
    answer = diff(client, **asked)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)


def test_a_difference_of_a_position_with_itself_is_empty(client: TestClient) -> None:
    found = diff(client, from_=300, to=300).json()["diff"]
    assert {name: value for name, value in found.items() if value} == {"before": 300, "after": 300}
