"""The log as server-sent events, read by a real client from a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.house import House
from api.routes import admission, event_stream
from api.tokens import issue, revoke
from tests.golden.test_golden_samples import sample
from tests.served import served_app

from .test_rest_samples import append


@pytest.fixture
def house(empty_house: House) -> House:
    return empty_house


@pytest.fixture
def headers(house: House) -> dict[str, str]:
    return {"Authorization": f"Bearer {issue(house.store, 'reader', 'test', 'read')}"}


def write_prices(house: House, version: int) -> None:
    append(house.store, "prices", sample("PriceBookSet", version=version))


def read_events(lines: Iterator[str], most: int) -> list[tuple[int, dict[str, Any]]]:
    """The first events of a stream with their ids."""
    found: list[tuple[int, dict[str, Any]]] = []
    place = 0
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            place = int(value)
        elif name == "data":
            found.append((place, json.loads(value)))
            if len(found) == most:
                break
    return found


def test_events_come_as_they_are_appended_and_a_client_resumes_after_the_last_it_saw(
    house: House, headers: dict[str, str]
) -> None:
    with served_app(house) as url, httpx2.Client(base_url=url, headers=headers, timeout=10) as caller:
        with caller.stream("GET", "/v1/events/stream") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            next(lines)
            write_prices(house, 2)
            ((place, first),) = read_events(lines, 1)
        assert (place, first["position"], first["type"]) == (2, 2, "PriceBookSet")
        write_prices(house, 3)
        write_prices(house, 4)
        with caller.stream("GET", "/v1/events/stream?after=0", headers={"Last-Event-ID": "2"}) as answer:
            assert [each for each, _ in read_events(answer.iter_lines(), 2)] == [3, 4]
        listed = caller.get("/v1/events", params={"after": 1, "limit": 1}).json()["events"]
        assert listed == [first]


def test_a_stream_of_one_type_or_stream_leaves_out_the_rest(house: House, headers: dict[str, str]) -> None:
    write_prices(house, 2)
    with served_app(house, stream_seconds=0) as url, httpx2.Client(base_url=url, headers=headers) as caller:
        of_type = caller.get("/v1/events/stream", params={"after": 0, "type": "TokenIssued"})
        of_stream = caller.get("/v1/events/stream", params={"after": 0, "stream": "prices"})
    assert [place for place, _ in read_events(iter(of_type.text.splitlines()), 9)] == [1]
    assert [place for place, _ in read_events(iter(of_stream.text.splitlines()), 9)] == [2]


def test_a_reader_that_is_behind_gets_page_after_page(
    house: House, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "PAGE", 2)
    for version in range(2, 7):
        write_prices(house, version)
    with (
        served_app(house) as url,
        httpx2.Client(base_url=url, headers=headers) as caller,
        caller.stream("GET", "/v1/events/stream?after=0") as answer,
    ):
        assert [place for place, _ in read_events(answer.iter_lines(), 6)] == [1, 2, 3, 4, 5, 6]


def test_a_quiet_stream_sends_heartbeats_and_ends_when_its_token_is_revoked(
    house: House, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(event_stream, "POLL_S", 0.05)
    with served_app(house) as url, httpx2.Client(base_url=url, headers=headers, timeout=10) as caller:
        with caller.stream("GET", "/v1/events/stream") as answer:
            lines = answer.iter_lines()
            assert any(line == ": heartbeat" for line in lines)
            revoke(house.store, house.views(), "reader", "test", "test")
            assert all(line == "" or line.startswith((":", "id", "data")) for line in lines)  # and they end
        assert caller.get("/v1/events/stream").status_code == 401


def test_a_place_is_free_again_when_a_client_leaves(
    house: House, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "STREAMS_PER_TOKEN", 1)
    monkeypatch.setattr(event_stream, "POLL_S", 0.05)
    with served_app(house) as url, httpx2.Client(base_url=url, headers=headers, timeout=10) as caller:
        with caller.stream("GET", "/v1/events/stream") as answer:
            lines = answer.iter_lines()  # one that is dropped closes the answer
            next(lines)
            refused = caller.get("/v1/events/stream")
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "TooManyStreams")
            assert refused.headers["Retry-After"] == "1"
        wait_for(lambda: _is_open(caller))


def _is_open(caller: httpx2.Client) -> bool:
    with caller.stream("GET", "/v1/events/stream") as answer:
        return answer.status_code == 200


def wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it did not come about")


def test_a_server_that_stops_ends_its_streams(house: House, headers: dict[str, str]) -> None:
    with served_app(house) as url, httpx2.Client(base_url=url, headers=headers, timeout=10) as caller:
        answer = caller.send(caller.build_request("GET", "/v1/events/stream"), stream=True)
        lines = answer.iter_lines()
        next(lines)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("asked", "status", "kind"),
    [
        ({"params": {"after": "99"}}, 409, "NotThereYet"),
        ({"headers": {"Last-Event-ID": "99"}}, 409, "NotThereYet"),
        ({"headers": {"Last-Event-ID": "x"}}, 422, "InvalidRequest"),
        ({"params": {"type": "Nothing"}}, 422, "Unprocessable"),
        ({"params": {"since": "1"}}, 422, "InvalidRequest"),
    ],
)
def test_a_stream_that_cannot_be_says_why(
    house: House, headers: dict[str, str], asked: dict[str, Any], status: int, kind: str
) -> None:
    with TestClient(create_app(house), headers=headers) as caller:
        answer = caller.get("/v1/events/stream", **asked)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
