"""The model endpoint of a run: its key is good for the run alone, and what was asked there is recorded with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise

import httpx2
import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse, StreamingResponse

from agents.models.errors import ModelUnreachable
from api.serving import run_endpoint
from api.serving.dialects import CHAT, COMPLETIONS, MESSAGES
from api.serving.run_endpoint import RunEndpoint, open_endpoint
from api.settings import Settings
from eventlog.blobs.conversations import get_messages
from eventlog.blobs.memory import MemoryBlobs
from eventlog.errors import BaseMissing
from tests.model_server import Asked, ModelServer, Reply, model_server

USER = [{"role": "user", "content": "which link?"}]
BODY = {"model": "m", "messages": USER, "seed": 7}


def answer(asked: Asked) -> Reply:
    status = next((int(word) for word in asked.text.split() if word.isdigit()), 502)
    if "cut" in asked.text:
        return StreamingResponse(iter([b'data: {"choices": [{"index": 0, "delta": {"content": "Ja"}}]}\n\n']))
    return JSONResponse({"error": "gone"}, status) if "break" in asked.text else "Jackets"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server(answer) as running:
        yield running


@pytest.fixture(scope="module")
def endpoint(server: ModelServer) -> Iterator[RunEndpoint]:
    settings = Settings(model="m", model_url=server.url, model_key=SecretStr("its-own-key"), prompt_bytes=2000)
    found = open_endpoint(settings)
    assert found is not None
    with found as running:
        yield running


def post(endpoint: RunEndpoint, key: str, body: object = BODY, path: str = "chat/completions") -> httpx2.Response:
    with httpx2.Client(trust_env=False) as web:
        return web.post(f"{endpoint.address}/v1/{path}", json=body, headers={"Authorization": f"Bearer {key}"})


def test_a_key_is_good_for_its_run_and_while_it_lasts(endpoint: RunEndpoint, server: ModelServer) -> None:
    with endpoint.open_run() as one, endpoint.open_run() as other:
        assert one.model.key != other.model.key
        assert one.model.key not in repr(one.model)
        said = post(endpoint, one.model.key)
        assert said.json()["choices"][0]["message"]["content"] == "Jackets"
        assert server.asked[-1].headers["authorization"] == "Bearer its-own-key"
        (call,) = one.calls(3)
        assert (call.step, call.event.role, call.event.sampling.seed) == (3, "policy", 7)
        assert call.output_tokens == len("Jackets")
        blobs = MemoryBlobs()
        blobs.put(call.blobs)
        assert get_messages(blobs, call.event.messages) == BODY["messages"]
        assert (one.calls(4), other.calls(0)) == ((), ())
        one.close()
        assert post(endpoint, one.model.key).status_code == 409
    for key in (one.model.key, other.model.key, "none", "its-own-key"):
        assert post(endpoint, key).status_code == 401


def test_what_a_model_server_refuses_and_what_it_fails_at_are_told_apart(endpoint: RunEndpoint) -> None:
    broken = {**BODY, "messages": [{"role": "user", "content": "break"}]}
    with endpoint.open_run() as run:
        for body, path, status in (
            ({**BODY, "model": "other"}, "chat/completions", 400),
            (BODY, "messages", 400),
            ({"model": "m"}, "chat/completions", 400),
            ({**BODY, "messages": [{"role": "user", "content": "x" * 3000}]}, "chat/completions", 413),
            (broken, "chat/completions", 502),
        ):
            assert post(endpoint, run.model.key, body, path).status_code == status, body
        assert run.calls(0) == ()
        assert post(endpoint, run.model.key).status_code == 200  # an answer after that forgives it
        run.close()


@pytest.mark.parametrize(
    ("asks", "is_missing"),
    [("break 502", True), ("break 500", True), ("break 429", True), ("cut", True), ("break 400", False)],
)
def test_a_run_at_whose_last_call_the_model_server_failed_is_missing_and_not_failed(
    endpoint: RunEndpoint, asks: str, is_missing: bool
) -> None:
    body = {**BODY, "messages": [{"role": "user", "content": asks}], "stream": asks == "cut"}
    with endpoint.open_run() as run:
        post(endpoint, run.model.key, body)
        with pytest.raises(ModelUnreachable) if is_missing else nullcontext():
            run.close()


def test_a_run_whose_model_server_is_gone_at_last_is_missing_and_not_failed() -> None:
    with model_server(answer) as server:
        settings = Settings(model="m", model_url=server.url)
    found = open_endpoint(settings)
    assert found is not None
    with found as endpoint, endpoint.open_run() as run:
        assert post(endpoint, run.model.key).status_code == 502
        with pytest.raises(ModelUnreachable, match="does not answer"):
            run.close()


def test_a_run_makes_a_bounded_number_of_calls(endpoint: RunEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_endpoint, "MOST_CALLS", 2)
    with endpoint.open_run() as run:
        statuses = [post(endpoint, run.model.key).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert all(one <= two for one, two in pairwise(statuses))


TEXT = [{"type": "text", "text": "Be brief."}]
NOTE = {"type": "text", "text": "A note."}


@pytest.mark.parametrize(
    ("path", "asked", "sent"),
    [
        ("chat/completions", {"messages": USER}, {"messages": [{"role": "system", "content": "A note."}, *USER]}),
        (
            "chat/completions",
            {"messages": [{"role": "system", "content": "Be brief."}, *USER]},
            {"messages": [{"role": "system", "content": "Be brief.\n\nA note."}, *USER]},
        ),
        (
            "chat/completions",
            {"messages": [{"role": "developer", "content": TEXT}, *USER]},
            {"messages": [{"role": "developer", "content": [*TEXT, NOTE]}, *USER]},
        ),
        ("messages", {"messages": USER}, {"messages": USER, "system": "A note."}),
        (
            "messages",
            {"messages": USER, "system": "Be brief."},
            {"messages": USER, "system": "Be brief.\n\nA note."},
        ),
        ("messages", {"messages": USER, "system": TEXT}, {"messages": USER, "system": [*TEXT, NOTE]}),
        ("completions", {"prompt": "Once"}, {"prompt": "A note.\n\nOnce"}),
    ],
)
def test_advice_is_put_into_what_a_request_tells_the_model_at_first(
    path: str, asked: dict[str, object], sent: dict[str, object]
) -> None:
    dialect = next(each for each in (CHAT, MESSAGES, COMPLETIONS) if each.path == path)
    asked = {"model": "m", "max_tokens": 9, **asked}
    before = json.dumps(asked)
    assert dialect.advise(asked, "A note.") == {"model": "m", "max_tokens": 9, **sent}
    assert json.dumps(asked) == before
    dialect.read_call(dialect.advise(asked, "A note."))


def test_a_run_with_advice_is_recorded_as_its_model_was_asked(endpoint: RunEndpoint, server: ModelServer) -> None:
    with endpoint.open_run("- “Take 'Jackets'.”\n\n") as run, endpoint.open_run() as other:
        assert post(endpoint, run.model.key).status_code == 200
        told = [{"role": "system", "content": "- “Take 'Jackets'.”"}, *USER]
        assert server.asked[-1].body["messages"] == told
        (call,) = run.calls(0)
        blobs = MemoryBlobs()
        blobs.put(call.blobs)
        assert get_messages(blobs, call.event.messages) == told
        assert post(endpoint, run.model.key, {"model": "m", "prompt": [1, 2]}, "completions").status_code == 400
        assert post(endpoint, other.model.key).status_code == 200
        assert server.asked[-1].body["messages"] == USER


def test_without_a_model_there_is_no_endpoint_and_one_that_is_not_to_be_had_is_refused_by_name() -> None:
    assert open_endpoint(Settings()) is None
    found = open_endpoint(Settings(model="transformers:somewhere"))
    assert found is not None
    with pytest.raises(BaseMissing, match="somewhere"), found:
        pass
