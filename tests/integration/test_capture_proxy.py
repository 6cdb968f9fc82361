"""The capture proxy with the clients of OpenAI and Anthropic: what they get, and what the log then holds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import anthropic
import anyio
import httpx2
import openai
import pytest
import uvicorn
from starlette.responses import JSONResponse, StreamingResponse

from api.app import create_app
from api.house import House
from api.ports import listen
from api.tokens import issue, revoke
from eventlog.blobs.conversations import get_messages
from eventlog.events import ModelCalled
from tests.model_server import Answering, Asked, ModelServer, message, model_server

MODEL = "policy"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}

Proxy = tuple[str, str, House]
"""The address of the proxy, a token, and the house behind it."""


@contextmanager
def proxied(house: House, upstream: ModelServer, token: str | None = None, **further: Any) -> Iterator[Proxy]:
    """A proxy in front of a model server, on a socket."""
    settings = house.settings.model_copy(
        update={"model": MODEL, "model_url": upstream.url, "model_token_ids": True, **further}
    )
    served = replace(house, settings=settings)
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(served), log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    token = token or issue(house.store, "agent", "test")
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", token, house
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def served(empty_house: House) -> Iterator[Callable[..., Any]]:
    """A function that starts a proxy whose model server answers as it is told."""
    with_all: list[Any] = []

    def start(answer: Answering, **further: Any) -> tuple[Proxy, ModelServer]:
        server = model_server(answer)
        upstream = server.__enter__()
        with_all.append(server)
        proxy = proxied(empty_house, upstream, **further)
        with_all.append(proxy)
        return proxy.__enter__(), upstream

    yield start
    for each in reversed(with_all):
        each.__exit__(None, None, None)


def client_at(proxy: Proxy, run: str) -> openai.OpenAI:
    address, token, _ = proxy
    return openai.OpenAI(base_url=f"{address}/{run}/v1", api_key=token, max_retries=0)


def calls_of(house: House, run: str) -> list[ModelCalled]:
    return [each.event for each in house.store.read(stream=f"run/{run}") if isinstance(each.event, ModelCalled)]


def completion_of(house: House, call: ModelCalled) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(house.blobs.get(call.completion).body)
    return found


def streamed(parts: Sequence[Mapping[str, Any]], *, ends: bool = True) -> Answering:
    """A model server that streams these parts."""

    def answer(_: Asked) -> StreamingResponse:
        lines = [f"data: {json.dumps(part)}\n\n" for part in parts] + (["data: [DONE]\n\n"] if ends else [])
        return StreamingResponse(iter(lines), media_type="text/event-stream")

    return answer


def part(text: str, finish: str | None = None) -> dict[str, Any]:
    logprobs: Any = {"content": [{"token": sign, "logprob": -0.5, "bytes": None, "top_logprobs": []} for sign in text]}
    ids = [ord(sign) for sign in text]
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish, "logprobs": logprobs, "token_ids": ids}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}


USAGE = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": []} | {
    "usage": {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
}


def test_a_chat_of_an_unchanged_client_is_recorded_with_ids_and_logprobs_that_it_did_not_ask_for(
    served: Callable[..., Any],
) -> None:
    proxy, upstream = served(lambda _: "four")
    house = proxy[2]
    client = client_at(proxy, "ext-1")
    content: Any = [
        {"type": "text", "text": "2 + 2?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    said = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": content}], temperature=0.5, max_tokens=7, seed=3
    )
    assert said.choices[0].message.content == "four"
    assert said.choices[0].logprobs is None
    assert upstream.asked[0].headers.get("authorization") is None
    (call,) = calls_of(house, "ext-1")
    assert (call.sampling.temperature_micro, call.sampling.max_tokens, call.sampling.seed) == (500_000, 7, 3)
    assert (call.has_logprobs, call.input_tokens, call.output_tokens) == (True, 11, 4)
    (sample,) = completion_of(house, call)["samples"]
    assert sample["token_ids"] == [ord(sign) for sign in "four"]
    assert completion_of(house, call)["prompt_token_ids"] == [1, 2, 3]
    (asked,) = get_messages(house.blobs, call.messages)
    assert asked["content"] == [content[0], {"type": "image_url", "image": call.images[0], "media_type": "image/png"}]
    assert house.blobs.get(call.images[0]).media_type == "image/png"


def test_a_stream_ends_for_its_caller_when_its_call_is_in_the_log(served: Callable[..., Any]) -> None:
    proxy, _ = served(streamed([part("fo"), part("ur", "stop"), USAGE]))
    stream = client_at(proxy, "ext-1").chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "2 + 2?"}], stream=True
    )
    heard = []
    for each in stream:
        assert each.choices, "a part that only recording asked for reached the caller"
        assert not hasattr(each.choices[0], "token_ids")
        heard.append(each.choices[0].delta.content)
    (call,) = calls_of(proxy[2], "ext-1")
    assert (heard, call.input_tokens, call.output_tokens) == (["fo", "ur"], 5, 4)
    (sample,) = completion_of(proxy[2], call)["samples"]
    assert (sample["text"], sample["finish"], len(sample["logprobs"])) == ("four", "stop", 4)


def test_a_stream_that_the_model_server_cuts_is_an_error_and_no_call(served: Callable[..., Any]) -> None:
    proxy, _ = served(streamed([part("fo")], ends=False))
    stream = client_at(proxy, "ext-1").chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "2 + 2?"}], stream=True
    )
    with pytest.raises(openai.APIError, match="ended before the last event"):
        list(stream)
    assert calls_of(proxy[2], "ext-1") == []


def test_a_caller_that_stops_reading_where_the_answer_is_finished_has_its_call_recorded(
    served: Callable[..., Any],
) -> None:
    proxy, _ = served(streamed([part("fo"), part("ur", "stop"), USAGE]))
    stream = client_at(proxy, "ext-1").chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "2 + 2?"}], stream=True
    )
    next(each for each in stream if each.choices[0].finish_reason)
    stream.close()
    assert len(calls_of(proxy[2], "ext-1")) == 1


def test_a_failure_that_the_model_server_tells_in_its_stream_is_no_call(served: Callable[..., Any]) -> None:
    proxy, _ = served(streamed([part("fo"), {"error": {"message": "out of memory"}}]))
    stream = client_at(proxy, "ext-1").chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "2 + 2?"}], stream=True
    )
    with pytest.raises(openai.APIError, match="out of memory"):
        list(stream)
    assert calls_of(proxy[2], "ext-1") == []


def test_tools_are_recorded_and_a_forced_one_marks_the_call_as_constrained(served: Callable[..., Any]) -> None:
    tool = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [tool]}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    proxy, _ = served(lambda _: JSONResponse(body))
    client = client_at(proxy, "ext-1")
    tools: Any = [WEATHER]
    for forced in ("auto", "required"):
        answer = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "rain?"}], tools=tools, tool_choice=cast("Any", forced)
        )
        assert cast("Any", answer).choices[0].message.tool_calls[0].function.name == "weather"
    free, bound = (completion_of(proxy[2], call) for call in calls_of(proxy[2], "ext-1"))
    assert free["samples"][0]["tool_calls"] == [tool]
    assert ("constrained" in free, bound["constrained"]) == (False, True)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_message_of_anthropics_client_is_recorded_whole(served: Callable[..., Any], is_streamed: bool) -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message({"model": MODEL}, "") | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "four"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    as_stream: Answering = lambda _: StreamingResponse(iter(lines), media_type="text/event-stream")  # noqa: E731
    proxy, upstream = served(as_stream if is_streamed else lambda _: "four", model_api="anthropic")
    address, token, house = proxy
    client = anthropic.Anthropic(base_url=f"{address}/ext-1", api_key=token, max_retries=0)
    asked: Any = {
        "model": MODEL,
        "max_tokens": 9,
        "system": "Be short.",
        "messages": [{"role": "user", "content": "2 + 2?"}],
    }
    if is_streamed:
        with client.messages.stream(**asked) as stream:
            assert stream.get_final_text() == "four"
    else:
        assert client.messages.create(**asked).content[0].text == "four"
    (call,) = calls_of(house, "ext-1")
    assert (call.input_tokens, call.output_tokens, call.sampling.max_tokens) == (11, 4, 9)
    assert [each["role"] for each in get_messages(house.blobs, call.messages)] == ["system", "user"]
    assert completion_of(house, call)["samples"][0]["text"] == "four"
    assert upstream.asked[0].headers["anthropic-version"]


def test_a_run_takes_its_reward_in_one_call_and_nothing_after_it(served: Callable[..., Any]) -> None:
    proxy, _ = served(lambda _: "four")
    address, token, house = proxy
    client = client_at(proxy, "ext-1")
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "2 + 2?"}]}
    client.chat.completions.create(**asked)
    client.chat.completions.create(**asked)
    with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}) as rest:
        first, again, other = (
            rest.post("/v1/runs/ext-1/reward", json=body)
            for body in ({"score": 0.5, "passed": True}, {"score": 0.5, "passed": True}, {"score": 1, "passed": True})
        )
        assert [first.status_code, again.status_code, other.status_code] == [200, 200, 409]
        assert first.json() == again.json()
        run = rest.get("/v1/runs/ext-1").json()
        assert rest.post("/v1/runs/ext-2/reward", json={"score": 1, "passed": True}).status_code == 404
        assert rest.post("/v1/runs/mine/reward", json={"score": 1, "passed": True}).status_code == 403
    assert (run["run"]["status"], run["reward"]["score"], run["reward"]["passed"]) == ("completed", 500_000, True)
    assert [call.index for call in calls_of(house, "ext-1")] == [0, 1]
    with pytest.raises(openai.ConflictError, match="has ended"):
        client.chat.completions.create(**asked)


def test_calls_of_one_run_at_once_are_all_recorded_under_numbers_of_their_own(served: Callable[..., Any]) -> None:
    proxy, _ = served(lambda _: "four")
    client = client_at(proxy, "ext-1")
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "2 + 2?"}]}
    threads = [threading.Thread(target=lambda: client.chat.completions.create(**asked)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [call.index for call in calls_of(proxy[2], "ext-1")] == list(range(8))


@pytest.mark.parametrize(
    ("status", "kind", "match"),
    [
        (401, openai.InternalServerError, "FLYWHEEL_MODEL_KEY"),
        (429, openai.RateLimitError, "slow down"),
        (400, openai.BadRequestError, "slow down"),
        (500, openai.InternalServerError, "slow down"),
    ],
)
def test_what_the_model_server_refuses_is_said_in_the_callers_dialect(
    served: Callable[..., Any], status: int, kind: type[Exception], match: str
) -> None:
    proxy, _ = served(lambda _: JSONResponse({"error": {"message": "slow down"}}, status_code=status))
    with pytest.raises(kind, match=match):
        client_at(proxy, "ext-1").chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "?"}])
    assert calls_of(proxy[2], "ext-1") == []


def test_each_wrong_call_is_refused_before_it_reaches_the_model(served: Callable[..., Any]) -> None:
    proxy, upstream = served(lambda _: "four", prompt_bytes=4096)
    address, token, house = proxy
    other = issue(house.store, "other", "test")
    good: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "?"}]}
    bearer = {"Authorization": f"Bearer {token}"}
    cases: list[tuple[str, dict[str, str], Any, int]] = [
        ("/ext-1/v1/chat/completions", {}, good, 401),
        ("/ext-1/v1/chat/completions", bearer, good | {"model": "gpt"}, 404),
        ("/mine/v1/chat/completions", bearer, good, 403),
        ("/v1/chat/completions", bearer, good, 400),
        ("/v1/chat/completions", {"Authorization": f"Bearer {token}/mine"}, good, 403),
        ("/v1/chat/completions", {"Authorization": "Bearer fw_x/ext-1"}, good, 401),
        ("/ext-1/v1/chat/completions", {"Authorization": f"Bearer {token}/ext-2"}, good, 400),
        ("/v1/chat/completions", {"Authorization": f"Bearer {token}/ext-2", "X-Flywheel-Run": "ext-1"}, good, 400),
        ("/ext-1/v1/messages", {"x-api-key": token}, good, 503),
        ("/ext-1/v1/chat/completions", bearer, good | {"messages": []}, 400),
        ("/ext-1/v1/chat/completions", bearer, good | {"temperature": "hot"}, 400),
        ("/ext-1/v1/chat/completions", bearer, [1], 400),
        ("/ext-1/v1/completions", bearer, {"model": MODEL, "prompt": "2 + 2 =", "echo": True}, 400),
        ("/ext-1/v1/chat/completions", bearer, good | {"user": "x" * 5000}, 413),
        ("/ext-a%00b/v1/chat/completions", bearer, good, 400),
        ("/ext-a%FFb/v1/chat/completions", bearer, good, 400),
        ("/ext-a%ED%A0%80/v1/messages", {"x-api-key": token}, good, 503),
    ]
    with httpx2.Client(base_url=address) as rest:
        for path, headers, body, status in cases:
            answer = rest.post(path, json=body, headers=headers)
            assert (answer.status_code, path) == (status, path), answer.text
            assert answer.json()["error"]["message"]
        rest.post("/v1/chat/completions", json=good, headers={**bearer, "X-Flywheel-Run": "ext-1"}).raise_for_status()
        keyed = {"Authorization": f"Bearer {token}/ext-keyed"}
        rest.post("/v1/chat/completions", json=good, headers=keyed).raise_for_status()
        assert len(calls_of(house, "ext-keyed")) == 1
        theirs = rest.post("/ext-1/v1/chat/completions", json=good, headers={"Authorization": f"Bearer {other}"})
        assert theirs.status_code == 403
        assert rest.get("/ext-1/v1/models", headers=bearer).json()["data"][0]["id"] == MODEL
    assert len(upstream.asked) == 2


def test_a_caller_that_hangs_up_leaves_no_call_and_no_open_connection(served: Callable[..., Any]) -> None:
    ended = threading.Event()

    async def endless() -> Any:
        try:
            while True:
                yield f"data: {json.dumps(part('x'))}\n\n"
                await _pause()
        finally:
            ended.set()

    proxy, _ = served(lambda _: StreamingResponse(endless(), media_type="text/event-stream"))
    stream = client_at(proxy, "ext-1").chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "?"}], stream=True
    )
    assert next(iter(stream)).choices[0].delta.content == "x"
    stream.close()
    assert ended.wait(10)
    assert calls_of(proxy[2], "ext-1") == []


async def _pause() -> None:
    await anyio.sleep(0.01)


def test_a_token_is_refused_from_the_next_call_on_once_it_is_revoked(served: Callable[..., Any]) -> None:
    proxy, upstream = served(lambda _: "four")
    house = proxy[2]
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "2 + 2?"}]}
    for _ in range(2):
        client_at(proxy, "ext-1").chat.completions.create(**asked)
    revoke(house.store, house.views(), "agent", "a test", "test")
    with pytest.raises(openai.AuthenticationError):
        client_at(proxy, "ext-1").chat.completions.create(**asked)
    assert len(upstream.asked) == 2


def test_bodies_hold_their_bytes_until_their_calls_are_answered(served: Callable[..., Any]) -> None:
    may = threading.Event()

    def answer(asked: Asked) -> str:
        assert "wait" not in asked.text or may.wait(10)
        return "done"

    proxy, upstream = served(answer, body_bytes=4096)

    def ask(run: str, words: str) -> Any:
        messages: Any = [{"role": "user", "content": words}]
        return client_at(proxy, run).chat.completions.create(model=MODEL, messages=messages)

    waiting = threading.Thread(target=ask, args=("ext-1", "wait " * 600))
    waiting.start()
    while not upstream.asked:
        time.sleep(0.005)
    with pytest.raises(openai.RateLimitError, match="FLYWHEEL_BODY_BYTES"):
        ask("ext-2", "more " * 400)
    may.set()
    waiting.join()
    assert ask("ext-2", "more " * 400).choices[0].message.content == "done"
    for part in ask_streamed(proxy):
        assert part
    assert ask("ext-3", "more " * 700).choices[0].message.content == "done"


def ask_streamed(proxy: Proxy) -> Sequence[str]:
    """The statuses of streamed calls that the model server does not stream: each gives its bytes back."""
    messages: Any = [{"role": "user", "content": "more " * 400}]
    found = []
    for number in range(3):
        try:
            list(
                client_at(proxy, f"ext-s{number}").chat.completions.create(model=MODEL, messages=messages, stream=True)
            )
        except openai.APIError as problem:
            found.append(str(problem))
    return found
