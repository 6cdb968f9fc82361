from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.clients.mutations import fetch_mutations, last_mutation_id
from agents.envs.contract import micro_units
from agents.envs.errors import (
    BadSiteUrl,
    ContractBroken,
    EnvironmentDown,
    EnvironmentFailure,
    EnvironmentRefused,
    InstanceClosed,
    TaskNotGraded,
)
from agents.envs.provider import Site, site_at

Answering = Callable[[httpx2.Request], httpx2.Response]
GOOD = {"task_id": "t", "passed": False, "score": 0.6667, "reasons": ["r"], "diff": {}}
MUTATION = {"id": 1, "operation": "o", "target_type": "boat", "target_id": "7", "payload": {}, "at": 3}


def client(answer: Answering, **more: Any) -> EnvClient:
    return EnvClient("http://env.test/", "s3cret", transport=httpx2.MockTransport(answer), pause=lambda _: None, **more)


def saying(body: object, status: int = 200) -> EnvClient:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client(lambda _: httpx2.Response(status, content=content))


def test_reset_sends_the_seed_and_every_header() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"ok": True, "seed": 7, "instance": "abc", "url": "http://env.test/i/abc/"})

    with client(answer, extra_headers={"x-preview": "p"}) as env:
        instance = env.reset(7)
        env.reset(7, instance=instance)
    assert (instance.seed, instance.instance, instance.url) == (7, "abc", "http://env.test/i/abc/")
    assert str(seen[0].url) == "http://env.test/__env__/reset"
    assert json.loads(seen[0].content) == {"seed": 7}
    assert "X-Env-Instance" not in seen[0].headers
    assert seen[1].headers["X-Env-Instance"] == "abc"
    assert all(each.headers["X-Env-Admin"] == "s3cret" and each.headers["x-preview"] == "p" for each in seen)


@pytest.mark.parametrize(
    "answer",
    [
        {"seed": 42, "instance": "abc", "url": "http://h/i/abc/"},
        {"seed": 7, "instance": "", "url": "http://h/i/abc/"},
        {"seed": 7, "instance": "abc", "url": "/i/abc/"},
        {"seed": "7", "instance": "abc", "url": "http://h/i/abc/"},
        {"seed": True, "instance": "abc", "url": "http://h/i/abc/"},
        {"ok": True},
        [],
        b"<html>",
        b"[" * 100_000,
    ],
)
def test_a_reset_is_verified(answer: object) -> None:
    with pytest.raises(ContractBroken, match="reset"):
        saying(answer).reset(7)


def test_a_reset_of_another_instance_than_asked_is_noticed() -> None:
    with pytest.raises(ContractBroken, match="another instance"):
        saying({"seed": 7, "instance": "abc", "url": "http://h/i/abc/"}).reset(7, instance="def")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, EnvironmentRefused), (403, EnvironmentRefused), (500, EnvironmentDown), (503, EnvironmentDown),
     (429, EnvironmentDown), (307, ContractBroken), (422, ContractBroken), (404, ContractBroken),
     (204, ContractBroken)],
)  # fmt: skip
def test_statuses_have_names(status: int, expected: type[EnvironmentFailure]) -> None:
    with pytest.raises(expected) as caught:
        saying({"error": "x"}, status).state("abc")
    assert "http://env.test" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_missing_tasks_and_instances_have_names() -> None:
    with pytest.raises(TaskNotGraded, match=r"'t'.*one\.two"):
        saying({"error": "x", "code": "unknown_task", "known": ["one.two"]}, 404).oracle("abc", "t")
    with pytest.raises(InstanceClosed, match="abc"):
        saying({"error": "x", "code": "unknown_instance"}, 404).close("abc")


@pytest.mark.parametrize("problem", [httpx2.ConnectError, httpx2.ConnectTimeout])
def test_only_connecting_is_tried_again_and_not_for_ever(problem: type[httpx2.TransportError]) -> None:
    waits: list[float] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        raise problem("no", request=request)

    env = EnvClient("http://env.test", "token", transport=httpx2.MockTransport(answer), pause=waits.append)
    with pytest.raises(EnvironmentDown):
        env.health()
    assert waits == [0.05, 0.1, 0.2]


def test_a_site_that_comes_up_meanwhile_is_met() -> None:
    calls: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(1)
        if len(calls) < 3:
            raise httpx2.ConnectError("not yet", request=request)
        return httpx2.Response(200, json={"site": "s", "instances": 0, "tasks": []})

    assert client(answer).health().site == "s"


@pytest.mark.parametrize("problem", [httpx2.ReadTimeout, httpx2.RemoteProtocolError, httpx2.ReadError])
def test_a_call_that_may_have_arrived_is_not_sent_again(problem: type[httpx2.TransportError]) -> None:
    calls: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(1)
        raise problem("late", request=request)

    with pytest.raises(EnvironmentDown, match="does not answer reset"):
        client(answer).reset(1)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "score", ["NaN", "Infinity", "-Infinity", "1e999", "1.0001", "-0.1", "true", "null", '"1"', "[]"]
)
def test_a_score_must_be_a_number_from_0_to_1(score: str) -> None:
    body = json.dumps({**GOOD, "score": "HERE"}).replace('"HERE"', score).encode()
    with pytest.raises(ContractBroken, match="score"):
        saying(body).oracle("abc", "t")


@pytest.mark.parametrize(("score", "micro"), [(0, 0), (1, 10**6), (1.0, 10**6), (0.6667, 666_700), (0.1, 100_000)])
def test_scores_become_micro_units(score: float, micro: int) -> None:
    assert saying({**GOOD, "score": score}).oracle("abc", "t").score_micro == micro
    assert micro_units(score) == micro


@pytest.mark.parametrize(
    "change", [{"passed": 1}, {"passed": None}, {"task_id": "other"}, {"reasons": "r"}, {"diff": []}, {"reasons": [1]}]
)
def test_a_judgement_of_another_shape_breaks_the_contract(change: dict[str, object]) -> None:
    with pytest.raises(ContractBroken):
        saying({**GOOD, **change}).oracle("abc", "t")


@pytest.mark.parametrize(
    "listed",
    [
        None,
        {},
        [{}],
        [{**MUTATION, "id": "1"}],
        [MUTATION, MUTATION],
        [{**MUTATION, "id": 0}],
        [{**MUTATION, "payload": "{}"}],
    ],
)
def test_mutations_of_another_shape_break_the_contract(listed: object) -> None:
    with pytest.raises(ContractBroken):
        saying({"mutations": listed}).mutations("abc")


def test_mutations_at_or_below_since_break_the_contract() -> None:
    assert saying({"mutations": [MUTATION]}).mutations("abc")[0].target_id == "7"
    with pytest.raises(ContractBroken):
        saying({"mutations": [MUTATION]}).mutations("abc", 1)


def test_models_are_frozen_and_more_fields_are_allowed() -> None:
    graded = saying({**GOOD, "later": 1}).oracle("abc", "t")
    with pytest.raises(ValueError, match="frozen"):
        graded.passed = True  # type: ignore[misc]


@pytest.mark.parametrize("url", ["", "nonsense", "http://[", "ftp://x", "http://exa mple", "http://127.0.0.1:1"])
def test_fetching_mutations_never_raises(url: str) -> None:
    found = fetch_mutations(url, "token", instance="abc", timeout_s=0.5)
    assert found["mutations"] == []
    assert found["error"]


def test_fetching_mutations_with_a_token_that_fits_no_header() -> None:
    for token in ("töken✓", "a\nb"):
        assert fetch_mutations("http://127.0.0.1:1", token, instance="abc", timeout_s=0.5)["error"]


def test_fetching_mutations_and_the_last_id() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"mutations": [MUTATION]}))
    found = fetch_mutations("http://env.test", "token", instance="abc", transport=transport)
    assert found == {"mutations": [MUTATION]}
    assert last_mutation_id(found["mutations"]) == 1
    assert last_mutation_id([]) == last_mutation_id([{"op": "x"}, {"id": "9"}]) == 0


def test_a_site_elsewhere() -> None:
    site = site_at("mine", url="https://a.test/", admin_url="http://b.test:81/", admin_token="secret")
    assert site == Site("mine", "https://a.test", "http://b.test:81", "secret")
    assert "secret" not in repr(site)
    for bad in ("a.test", "file:///x", "http://", "http://["):
        with pytest.raises(BadSiteUrl):
            site_at("mine", url=bad, admin_url="http://b.test", admin_token="secret")
