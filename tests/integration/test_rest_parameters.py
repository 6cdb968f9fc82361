"""What no path, query or header may hold is refused at every endpoint alike."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from .test_rest_time import EVERY, READS, filled, needed, paths

pytestmark = pytest.mark.reads

WITH_NAMES = sorted(path for path in READS if "{" in path)
INTEGERS = sorted(
    (path, parameter["in"], parameter["name"])
    for path in READS
    for parameter in paths()[path]["get"]["parameters"]
    if "integer" in str(parameter["schema"])
)


def refused(answer: Any) -> list[str]:
    """Where a refused request was wrong."""
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (422, "InvalidRequest"), answer.text
    return [fault["where"] for fault in error["facts"]["errors"]]


def known(method: str, path: str) -> list[str]:
    described = paths()[path][method.lower()].get("parameters", [])
    return sorted(parameter["name"] for parameter in described if parameter["in"] == "query")


@pytest.mark.parametrize(("method", "path"), EVERY, ids=str)
def test_an_unknown_query_parameter_is_refused_with_the_known_ones(method: str, path: str, client: TestClient) -> None:
    answer = client.request(method, filled(path).partition("?")[0], params={**needed(path), "limitt": "1"})
    assert refused(answer) == ["query.limitt"]
    names = known(method, path)
    assert answer.json()["error"]["message"].endswith(f"expected {'one of ' + ', '.join(names) if names else 'none'}.")


@pytest.mark.parametrize("path", WITH_NAMES)
@pytest.mark.parametrize("name", ["a%00b", "%ED%A0%80", "a%FFb"], ids=["nul", "surrogate", "no UTF-8"])
def test_a_path_that_no_database_can_hold_is_refused(path: str, name: str, client: TestClient) -> None:
    before, _, after = path.partition("{")
    assert refused(client.get(before + name + after.partition("}")[2])) == ["path"]


@pytest.mark.parametrize(("method", "path"), EVERY, ids=str)
@pytest.mark.parametrize("content", ["a%00b", "%ED%A0%80", "%FF"], ids=["nul", "surrogate", "no UTF-8"])
def test_a_query_that_no_database_can_hold_is_refused(method: str, path: str, content: str, client: TestClient) -> None:
    name = (known(method, path) or ["any"])[0]
    assert f"query.{name}" in refused(client.request(method, f"{filled(path).partition('?')[0]}?{name}={content}"))


@pytest.mark.parametrize("header", ["Idempotency-Key", "X-Blob-Subject", "X-Log-At-Least", "Accept"])
def test_a_header_with_a_nul_is_refused(header: str, client: TestClient) -> None:
    assert f"header.{header.lower()}" in [
        where.lower() for where in refused(client.get("/v1/runs", headers={header: "a\0b"}))
    ]


@pytest.mark.parametrize(("path", "where", "name"), INTEGERS)
def test_an_integer_is_written_in_digits(path: str, where: str, name: str, client: TestClient) -> None:
    for written in ("+5", "5 ", " 5", "1_0", "5.0", "５", "", "0x5"):
        asked: dict[str, Any] = {"params": needed(path)}
        if where == "query":
            asked["params"] = {**needed(path), name: written}
        else:
            asked["headers"] = {name: written.encode("utf-8")}
        assert refused(client.get(filled(path).partition("?")[0], **asked)) == [f"{where}.{name}"], written


def test_a_position_is_written_in_digits_too(client: TestClient) -> None:
    for written in ("+5", "5 ", " 5", "1_0", "５"):
        assert client.get("/v1/champion", params={"as_of": written}).json()["error"]["type"] == "BadPosition"


@pytest.mark.parametrize(
    ("written", "status"),
    [
        ("2026-01-01T00:00:00+23:59", 200),
        ("9999-12-31T23:59:59Z", 200),
        ("9999-12-31T23:59:59-14:00", 200),
        ("0001-01-01T00:00:00+14:00", 200),
        ("0001-01-01", 200),
    ],
)
def test_a_time_at_the_edge_of_what_can_be_is_answered(written: str, status: int, client: TestClient) -> None:
    assert client.get("/v1/events", params={"as_of": written}).status_code == status


def test_every_fault_of_a_request_is_named(client: TestClient) -> None:
    answer = client.get("/v1/runs?limt=1&sweep=a%00&at_least=%2B1")
    assert refused(answer) == ["query.limt", "query.sweep", "query.at_least"]
