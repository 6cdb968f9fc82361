"""A bound on requests: for each token, over every route that takes one, and for sign-ins by address."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.house import House
from api.tokens import issue


@pytest.fixture
def bounded(empty_house: House) -> House:
    """A house whose callers may send ten requests at once."""
    settings = empty_house.settings.model_copy(update={"requests_per_second": 1.0})
    return replace(empty_house, settings=settings)


def test_a_token_that_sends_too_much_is_told_when_to_go_on_and_others_are_not(bounded: House) -> None:
    one, two = ({"Authorization": f"Bearer {issue(bounded.store, name, 'test', 'read')}"} for name in ("one", "two"))
    with TestClient(create_app(bounded)) as client:
        statuses = [client.get("/v1/champion/history", headers=one).status_code for _ in range(10)]
        assert statuses == [200] * 10
        for method, path in (("GET", "/v1/runs"), ("POST", "/v1/chat/completions")):
            answer = client.request(method, path, headers=one)
            assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        assert client.get("/v1/runs", headers=one).json()["error"]["type"] == "TooManyRequests"
        assert client.get("/v1/runs", headers=two).status_code == 200
        assert client.get("/healthz").status_code == 200


def test_sign_ins_from_one_address_are_bounded(bounded: House) -> None:
    with TestClient(create_app(bounded)) as client:
        form = {"token": "guess", "visitor": "x"}
        sent = {"Sec-Fetch-Site": "same-origin"}
        answers = [client.post("/ui/sign-in", data=form, headers=sent) for _ in range(11)]
    assert [each.status_code == 429 for each in answers] == [False] * 10 + [True]
    assert answers[-1].headers["Retry-After"] == "1"
