"""What is asked of a model server besides what callers ask, and what is said of their calls after its answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, StreamingResponse

from api.serving.call_terms import CallTerms
from api.serving.dialects import CHAT
from api.serving.errors import UpstreamAnswered
from api.serving.run_endpoint import RunCalls, RunEndpoint, open_endpoint
from api.settings import Settings
from tests.model_server import Asked, ModelServer, Reply, chat_completion, model_server

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "which link?"}]}
TOKENS: dict[str, Any] = {"model_tokenizer": "a" * 64, "model_chat_template": "b" * 64, "model_token_ids": True}
TOLD = -1.0


@contextmanager
def endpoint_before(
    answer: Callable[[Asked], Reply], **settings: Any
) -> Iterator[tuple[RunEndpoint, RunCalls, ModelServer]]:
    """An endpoint with one open run, in front of a model server."""
    with model_server(answer) as server:
        found = open_endpoint(Settings(model="m", model_url=server.url, **settings))
        assert found is not None
        with found as endpoint, endpoint.open_run() as run:
            yield endpoint, run, server


def post(endpoint: RunEndpoint, run: RunCalls, **body: Any) -> httpx2.Response:
    with httpx2.Client(trust_env=False) as web:
        return web.post(
            f"{endpoint.address}/v1/chat/completions",
            json={**ASKED, **body},
            headers={"Authorization": f"Bearer {run.model.key}"},
        )


def completions(run: RunCalls) -> list[dict[str, Any]]:
    """What was recorded of the run's calls."""
    return [json.loads(call.blobs[-1].body) for call in run.calls(0)]


def likely(asked: Asked, *, scales: bool) -> Reply:
    """An answer whose likeliest tokens are told, before or after temperature."""
    if asked.body.get("top_logprobs") is None:
        return "Jackets"
    scale = 1 / asked.body["temperature"] if scales else 1
    top = [{"token": "red", "logprob": -0.1 * scale}, {"token": "blue", "logprob": -2.1 * scale}]
    content = [{"token": "red", "logprob": -0.1, "top_logprobs": top}]
    return JSONResponse(chat_completion(asked.body, "red", logprobs={"content": content}))


@pytest.mark.parametrize("scales", [True, False])
def test_processed_logprobs_are_asked_of_the_server_once_and_not_believed(
    scales: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**TOKENS, "model_processed_logprobs": True}
    with endpoint_before(lambda asked: likely(asked, scales=scales), **settings) as (endpoint, run, server):
        for _ in range(2):
            assert post(endpoint, run).status_code == 200
        assert [each["processed_logprobs"] for each in completions(run)] == [scales, scales]
        assert len(server.asked) == 4
    assert ("PROCESSED_LOGPROBS" in caplog.text) is not scales


def test_a_server_that_tells_no_two_tokens_is_recorded_with_raw_logprobs(caplog: pytest.LogCaptureFixture) -> None:
    with endpoint_before(lambda _: "Jackets", **TOKENS, model_processed_logprobs=True) as (endpoint, run, _):
        post(endpoint, run)
        assert completions(run)[0]["processed_logprobs"] is False
    assert "no two tokens" in caplog.text


@pytest.mark.parametrize(
    ("asked", "uncut", "mark"),
    [
        ({}, False, "unknown"),
        ({"temperature": 1}, False, "unknown"),
        ({}, True, None),
        ({"temperature": 0.5}, True, None),
        ({"top_k": 20}, True, "changed"),
    ],
)
def test_a_call_says_whether_its_tokens_were_drawn_as_recorded(
    asked: dict[str, Any], uncut: bool, mark: str | None
) -> None:
    with endpoint_before(lambda _: "Jackets", **TOKENS, model_uncut=uncut) as (endpoint, run, server):
        assert post(endpoint, run, **asked).status_code == 200
        assert completions(run)[0].get("distribution") == mark
        stated = server.asked[-1].body
        assert (stated.get("min_p"), stated.get("repetition_penalty")) == ((0.0, 1.0) if uncut else (None, None))
        assert stated.get("temperature") == asked.get("temperature", 1.0 if uncut else None)


def refuses(*names: str, streams: bool = False) -> Callable[[Asked], Reply]:
    """A model server that refuses requests with these fields."""

    def answer(asked: Asked) -> Reply:
        unknown = next((name for name in names if name in asked.body), None)
        if unknown is not None:
            return JSONResponse({"error": {"message": f"Unsupported parameter: {unknown}"}}, 400)
        if not streams:
            return "Jackets"
        part = {"model": "m", "choices": [{"index": 0, "delta": {"content": "Jackets"}, "finish_reason": "stop"}]}
        return StreamingResponse(iter([f"data: {json.dumps(part)}\n\n", "data: [DONE]\n\n"]))

    return answer


@pytest.mark.parametrize("streams", [False, True])
def test_a_server_that_refuses_what_no_caller_asked_is_asked_again_without_it(
    streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with endpoint_before(refuses("logprobs", "stream_options", streams=streams)) as (endpoint, run, server):
        for _ in range(3):
            answer = post(endpoint, run, stream=streams)
            assert (answer.status_code, "Jackets" in answer.text) == (200, True)
        sent = [sorted(each.body.keys() & {"logprobs", "stream_options"}) for each in server.asked]
        both = [["logprobs", "stream_options"], [], ["stream_options"], [], []]
        assert sent == (both if streams else [["logprobs"], [], [], []])
        assert [each["samples"][0]["logprobs"] for each in completions(run)] == [None, None, None]
    assert caplog.text.count("FLYWHEEL_MODEL_LOGPROBS=false") == 1


def test_a_refusal_that_came_late_gives_up_nothing_more() -> None:
    terms = CallTerms(logprobs=True, token_ids=True)
    problem = UpstreamAnswered(actual=400, said="no", retry_after=None)
    first = terms.upstream_body(CHAT, ASKED)
    for _ in range(2):  # two calls were under way
        terms.note_refusal("here", problem, first, ASKED)
    assert terms.additions(ASKED) == ("usage",)


def test_a_refusal_is_of_calls_of_its_shape_and_of_what_it_names(caplog: pytest.LogCaptureFixture) -> None:
    terms = CallTerms(logprobs=True, token_ids=True)
    body = {**ASKED, "stream": True, "tools": [{"type": "function", "function": {"name": "f"}}]}
    said = "logprobs is not supported with tools + stream"
    problem = UpstreamAnswered(actual=400, said=said, retry_after=None)
    terms.note_refusal("here", problem, terms.upstream_body(CHAT, body), body)
    assert terms.additions(body) == ("token_ids", "usage")
    for other in (ASKED, {**body, "stream": False}, {**body, "tools": []}):
        assert terms.additions(other) == ("logprobs", "token_ids", "usage")
    assert "streamed and have tools" in caplog.text
    assert ("MODEL_LOGPROBS=false" in caplog.text, "MODEL_TOKEN_IDS" in caplog.text) == (True, False)


def test_an_overloaded_server_is_probed_again_at_the_next_call() -> None:
    answers = iter([JSONResponse({"error": "busy"}, 429)])

    def answer(asked: Asked) -> Reply:
        if asked.body.get("top_logprobs") is None:
            return "Jackets"
        return next(answers, None) or likely(asked, scales=True)

    with endpoint_before(answer, **TOKENS, model_processed_logprobs=True) as (endpoint, run, _):
        for _ in range(2):
            post(endpoint, run)
        assert [each["processed_logprobs"] for each in completions(run)] == [False, True]


def test_a_fault_of_the_caller_is_its_own_and_nothing_is_given_up_for_it() -> None:
    with endpoint_before(refuses("seed")) as (endpoint, run, server):
        answer = post(endpoint, run, seed=1)
        assert (answer.status_code, "seed" in answer.text) == (400, True)
        assert post(endpoint, run).status_code == 200
        assert server.asked[-1].body["logprobs"] is True
        assert len(completions(run)) == 1


def test_a_server_that_is_silent_longer_than_the_setting_is_lost() -> None:
    def late(_: Asked) -> Reply:
        time.sleep(0.6)
        return "Jackets"

    with endpoint_before(late, model_seconds=0.2) as (endpoint, run, _):
        answer = post(endpoint, run)
        assert (answer.status_code, "SocketTimeoutError" in answer.text) == (502, True)
        assert completions(run) == []
