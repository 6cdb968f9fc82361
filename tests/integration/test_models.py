"""The model backends against a real HTTP server of our own that speaks their wire formats, error paths included."""

from __future__ import annotations

import base64
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse, RedirectResponse, Response

from agents.models.anthropic import Anthropic, AnthropicSettings
from agents.models.errors import (
    AnswerBroken,
    AnswerUnstructured,
    BadEndpoint,
    ModelFailure,
    ModelOverloaded,
    ModelRefused,
    ModelUnknown,
    ModelUnreachable,
    NotOffered,
    RequestRejected,
)
from agents.models.model import ChatMessage, CompletionRequest, Image, Model, Schema
from agents.models.openai import OpenAI, OpenAISettings
from agents.models.structured import complete_as
from agents.models.wire import Patience
from eventlog.events import FrozenModel, Sampling
from tests.model_server import LOGPROB, Asked, ModelServer, Reply, chat_completion, message, model_server

KEY = "sk-very-secret-key"
PNG = b"\x89PNG\r\n\x1a\nnot really"
GREEDY = Sampling(temperature_micro=0, max_tokens=50)
ASK = (ChatMessage("system", ("Be brief.",)), ChatMessage("user", ("What is this?",)))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
BACKENDS = ("openai", "anthropic")


class Colour(FrozenModel):
    name: str
    red: int


@pytest.fixture(scope="module")
def running() -> Iterator[ModelServer]:
    with model_server(lambda _: "") as server:
        yield server


@pytest.fixture
def server(running: ModelServer) -> ModelServer:
    """The server, saying "blue", its memory empty."""
    running.asked.clear()
    running.answer = lambda _: "blue"
    return running


OPENED = ExitStack()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """What a test opened is closed after it."""
    yield
    OPENED.close()


def openai(server: ModelServer, waits: list[float] | None = None, **settings: Any) -> OpenAI:
    values = {"model": "m1", "base_url": server.url, "api_key": SecretStr(KEY), **settings}
    pause = (waits if waits is not None else []).append
    model = OpenAI(OpenAISettings(**values), Patience(timeout_s=5.0), pause=pause, now=lambda: NOW)
    return OPENED.enter_context(closing(model))


def anthropic(server: ModelServer, waits: list[float] | None = None, **settings: Any) -> Anthropic:
    values = {"model": "m1", "base_url": server.url, "api_key": SecretStr(KEY), **settings}
    pause = (waits if waits is not None else []).append
    model = Anthropic(AnthropicSettings(**values), Patience(timeout_s=5.0), pause=pause, now=lambda: NOW)
    return OPENED.enter_context(closing(model))


def backend(kind: str, server: ModelServer, waits: list[float] | None = None) -> Model:
    return openai(server, waits) if kind == "openai" else anthropic(server, waits)


def ask(model: Model, sampling: Sampling = GREEDY, messages: tuple[ChatMessage, ...] = ASK) -> Any:
    return model.complete(CompletionRequest(messages, sampling))


def saying(*replies: Reply) -> Callable[[Asked], Reply]:
    """Answers one after another, the last of them for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def fault(status: int, text: str = "no", **headers: str) -> Response:
    return JSONResponse({"error": {"message": text, "type": "t"}}, status, headers)


def test_a_chat_completion_says_everything_that_was_asked_for_explicitly(server: ModelServer) -> None:
    sampling = Sampling(
        temperature_micro=700_000,
        max_tokens=9,
        top_p_micro=950_000,
        seed=5,
        stop=("END",),
        samples=3,
        wants_logprobs=True,
    )
    found = ask(openai(server, offers_token_ids=True), sampling)
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "m1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is this?"}],
        "max_tokens": 9,
        "temperature": 0.7,
        "top_p": 0.95,
        "n": 3,
        "seed": 5,
        "stop": ["END"],
        "logprobs": True,
        "return_token_ids": True,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }
    assert (found.model, found.input_tokens, found.output_tokens) == ("m1-served", 11, 4)
    assert found.prompt_token_ids == (1, 2, 3)
    assert len(found.samples) == 3
    for sample in found.samples:
        assert (sample.text, sample.finish) == ("blue", "stop")
        assert [(token.text, token.logprob) for token in sample.tokens] == [(sign, LOGPROB) for sign in "blue"]
        assert sample.token_ids == tuple(map(ord, "blue"))


def test_samples_come_in_the_order_of_their_index(server: ModelServer) -> None:
    def answer(asked: Asked) -> Response:
        made = chat_completion(asked.body, "x")
        for choice in made["choices"]:
            choice["message"] = {"content": f"sample {choice['index']}"}
        return JSONResponse(made)

    server.answer = answer
    samples = ask(openai(server), GREEDY.model_copy(update={"samples": 3})).samples
    assert [sample.text for sample in samples] == ["sample 0", "sample 1", "sample 2"]


def test_what_was_not_asked_for_is_not_sent_and_not_there(server: ModelServer) -> None:
    (sample,) = ask(openai(server, api_key=None, length_field="max_completion_tokens")).samples
    (asked,) = server.asked
    assert set(asked.body) == {"model", "messages", "max_completion_tokens", "temperature", "top_p", "n"}
    assert "authorization" not in asked.headers
    assert (sample.tokens, sample.token_ids) == (None, None)


def test_a_messages_call_says_everything_that_was_asked_for_explicitly(server: ModelServer) -> None:
    sampling = Sampling(temperature_micro=500_000, max_tokens=9, top_p_micro=900_000, stop=("END",), samples=2)
    found = ask(anthropic(server), sampling)
    assert [asked.path for asked in server.asked] == ["/v1/messages"] * 2
    assert server.asked[0].headers["x-api-key"] == KEY
    assert server.asked[0].headers["anthropic-version"] == "2023-06-01"
    assert server.asked[0].body == {
        "model": "m1",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}]}],
        "system": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
    }
    assert [sample.text for sample in found.samples] == ["blue", "blue"]
    assert (found.model, found.input_tokens, found.output_tokens) == ("m1-served", 22, 8)


def test_pictures_go_as_each_wire_wants_them(server: ModelServer) -> None:
    shown = (ChatMessage("user", ("Look:", Image("image/png", PNG))),)
    data = base64.b64encode(PNG).decode()
    for kind in BACKENDS:
        ask(backend(kind, server), messages=shown)
    chat, messages = (asked.body["messages"][0]["content"] for asked in server.asked)
    assert chat[1] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    assert messages[1] == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    assert chat[0] == messages[0] == {"type": "text", "text": "Look:"}


@pytest.mark.parametrize("kind", BACKENDS)
def test_structured_output_comes_back_as_its_shape(server: ModelServer, kind: str) -> None:
    server.answer = lambda _: '{"name": "blue", "red": 0}'
    found, _ = complete_as(backend(kind, server), ASK, GREEDY, Colour)
    assert found == Colour(name="blue", red=0)
    body, schema = server.asked[0].body, Colour.model_json_schema()
    assert schema["additionalProperties"] is False
    if kind == "openai":
        expected = {"name": "Colour", "schema": schema, "strict": True}
        assert body["response_format"] == {"type": "json_schema", "json_schema": expected}
    else:
        assert body["tool_choice"] == {"type": "tool", "name": "Colour"}
        assert [(tool["name"], tool["input_schema"]) for tool in body["tools"]] == [("Colour", schema)]


@pytest.mark.parametrize("said", ['```json\n{"name": "blue", "red": 0}\n```', ' {"name": "blue", "red": 0}\n'])
def test_a_server_that_wraps_its_json_is_understood(server: ModelServer, said: str) -> None:
    server.answer = lambda _: said
    assert complete_as(openai(server), ASK, GREEDY, Colour)[0].name == "blue"


@pytest.mark.parametrize("said", ["It is blue.", '{"name": "blue"}', '{"name": "blue", "red": "0"}', "", "[]", '{"na'])
def test_an_answer_of_another_shape_has_a_name_and_is_not_repeated_in_the_message(
    server: ModelServer, said: str
) -> None:
    server.answer = lambda _: said
    with pytest.raises(AnswerUnstructured, match="Colour") as caught:
        complete_as(openai(server), ASK, GREEDY, Colour)
    assert "It is blue" not in str(caught.value)


@pytest.mark.parametrize(
    ("wire", "finish"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "filtered"), ("tool_calls", "stop"), ("new", "other"),
     (None, "other")],
)  # fmt: skip
def test_why_a_chat_completion_ended(server: ModelServer, wire: str | None, finish: str) -> None:
    server.answer = lambda asked: JSONResponse(chat_completion(asked.body, "x", finish_reason=wire))
    assert ask(openai(server)).samples[0].finish == finish


def test_a_refusal_is_an_empty_answer_that_was_filtered(server: ModelServer) -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I will not"}
    server.answer = lambda asked: JSONResponse(chat_completion(asked.body, "x", message=refused))
    (sample,) = ask(openai(server)).samples
    assert (sample.text, sample.finish) == ("", "filtered")
    server.answer = lambda asked: JSONResponse(message(asked.body, "", content=[], stop_reason="refusal"))
    (sample,) = ask(anthropic(server)).samples
    assert (sample.text, sample.finish) == ("", "filtered")


@pytest.mark.parametrize(
    ("wire", "finish"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("pause_turn", "other")],
)
def test_why_a_message_ended(server: ModelServer, wire: str, finish: str) -> None:
    server.answer = lambda asked: JSONResponse(message(asked.body, "x", stop_reason=wire))
    assert ask(anthropic(server)).samples[0].finish == finish


def test_what_anthropic_does_not_offer_is_refused_before_anything_is_sent(server: ModelServer) -> None:
    model = anthropic(server)
    assert (model.offers.logprobs, model.offers.token_ids, model.offers.seed) == (False, False, False)
    with pytest.raises(NotOffered, match="logprobs"):
        ask(model, GREEDY.model_copy(update={"wants_logprobs": True}))
    with pytest.raises(NotOffered, match="seed"):
        ask(model, GREEDY.model_copy(update={"seed": 1}))
    with pytest.raises(NotOffered, match="logprobs"):
        ask(openai(server, offers_logprobs=False), GREEDY.model_copy(update={"wants_logprobs": True}))
    assert server.asked == []


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_an_overloaded_server_is_asked_again_after_doubling_waits(server: ModelServer, kind: str, status: int) -> None:
    waits: list[float] = []
    server.answer = saying(fault(status), fault(status), "blue")
    assert ask(backend(kind, server, waits)).samples[0].text == "blue"
    assert waits == [0.5, 1.0]


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_server_that_stays_overloaded_is_given_up_by_name(server: ModelServer, kind: str) -> None:
    waits: list[float] = []
    server.answer = saying(fault(503, "all slots are busy"))
    with pytest.raises(ModelOverloaded, match=r"503 at try 4: 'all slots are busy'"):
        ask(backend(kind, server, waits))
    assert (waits, len(server.asked)) == ([0.5, 1.0, 2.0], 4)


@pytest.mark.parametrize(
    ("header", "wait"),
    [("7", 7.0), ("0", 0.0), ("1.5", 1.5), ("soon", 0.5), ("-3", 0.5),
     (format_datetime(datetime(2026, 11, 20, 12, 0, 9, tzinfo=UTC), usegmt=True), 9.0),
     (format_datetime(datetime(2026, 11, 20, 11, tzinfo=UTC), usegmt=True), 0.0)],
)  # fmt: skip
def test_the_wait_that_a_server_names_is_kept(server: ModelServer, header: str, wait: float) -> None:
    waits: list[float] = []
    server.answer = saying(fault(429, **{"Retry-After": header}), "blue")
    assert ask(openai(server, waits)).samples[0].text == "blue"
    assert waits == [wait]


def test_a_wait_longer_than_the_patience_is_not_waited(server: ModelServer) -> None:
    waits: list[float] = []
    server.answer = saying(fault(429, "quota", **{"Retry-After": "3600"}))
    with pytest.raises(ModelOverloaded, match="3600 s") as caught:
        ask(openai(server, waits))
    assert (waits, len(server.asked), caught.value.facts["retry_after_s"]) == ([], 1, "3600")


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, ModelRefused), (403, ModelRefused), (404, ModelUnknown), (400, RequestRejected), (413, RequestRejected),
     (422, RequestRejected), (418, RequestRejected)],
)  # fmt: skip
def test_what_asking_again_cannot_help_is_not_asked_again(
    server: ModelServer, kind: str, status: int, expected: type[ModelFailure]
) -> None:
    server.answer = saying(fault(status, "because of this"))
    with pytest.raises(expected, match="because of this"):
        ask(backend(kind, server))
    assert len(server.asked) == 1


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize(
    "reply",
    [
        Response(b"<html>not an API</html>"),
        Response(b""),
        Response(b"[" * 100_000),
        Response(b"\xff\xfe"),
        JSONResponse([]),
        JSONResponse({}),
        JSONResponse({"model": "m", "choices": "x", "content": 3}),
        JSONResponse({"model": "m", "choices": [{"message": 3}], "content": [{"type": 3}]}),
        RedirectResponse("http://elsewhere.test/"),
    ],
    ids=["html", "empty", "deep", "bytes", "list", "bare", "mistyped", "nested", "redirect"],
)
def test_an_answer_of_another_kind_is_named_and_not_asked_for_again(
    server: ModelServer, kind: str, reply: Response
) -> None:
    server.answer = saying(reply)
    with pytest.raises(AnswerBroken, match=server.url):
        ask(backend(kind, server))
    assert len(server.asked) == 1


def test_an_answer_without_what_was_asked_for_is_broken(server: ModelServer) -> None:
    wants = GREEDY.model_copy(update={"wants_logprobs": True})
    lacking: list[tuple[dict[str, Any], str]] = [
        ({"logprobs": None}, "no logprobs"),
        ({"logprobs": {"content": None}}, "no logprobs"),
        ({"logprobs": {"content": [{"token": "x", "logprob": 0.5}]}}, "a logprob is 0.5"),
        ({"logprobs": {"content": [{"token": "x", "logprob": -1}]}, "token_ids": [1, 2]}, "1 logprobs and 2 token_ids"),
        ({"token_ids": None}, "no token_ids"),
    ]
    for changes, told in lacking:
        server.answer = lambda asked, c=changes: JSONResponse(chat_completion(asked.body, "x", **c))  # type: ignore[misc]
        with pytest.raises(AnswerBroken, match=told):
            ask(openai(server, offers_token_ids=True), wants)
    nan = json.dumps(chat_completion({"model": "m", "logprobs": True}, "x")).replace(str(LOGPROB), "NaN")
    server.answer = saying(Response(nan))
    with pytest.raises(AnswerBroken, match="logprob"):
        ask(openai(server), wants)
    server.answer = lambda asked: JSONResponse(chat_completion({**asked.body, "n": 1}, "x"))
    with pytest.raises(AnswerBroken, match="1 choices"):
        ask(openai(server), GREEDY.model_copy(update={"samples": 2}))


def test_a_logprob_that_rounding_put_above_zero_is_zero(server: ModelServer) -> None:
    content = {"content": [{"token": "x", "logprob": 1e-7}]}
    server.answer = lambda asked: JSONResponse(chat_completion(asked.body, "x", logprobs=content))
    (sample,) = ask(openai(server), GREEDY.model_copy(update={"wants_logprobs": True})).samples
    assert [token.logprob for token in sample.tokens] == [0.0]


def test_a_tool_that_was_not_called_is_broken_unless_it_ran_out_of_tokens(server: ModelServer) -> None:
    request = CompletionRequest(ASK, GREEDY, Schema("Colour", Colour.model_json_schema()))
    text = [{"type": "text", "text": "blue"}]
    server.answer = lambda asked: JSONResponse(message({"model": "m"}, "x", content=text))
    with pytest.raises(AnswerBroken, match="calls no tool"):
        anthropic(server).complete(request)
    server.answer = lambda asked: JSONResponse(message({"model": "m"}, "x", content=text, stop_reason="max_tokens"))
    with pytest.raises(AnswerUnstructured, match="length"):
        complete_as(anthropic(server), ASK, GREEDY, Colour)


def test_usage_that_is_not_told_is_unknown_and_never_zero(server: ModelServer) -> None:
    server.answer = lambda asked: JSONResponse({**chat_completion(asked.body, "x"), "usage": None})
    found = ask(openai(server))
    assert (found.input_tokens, found.output_tokens) == (None, None)
    server.answer = lambda asked: JSONResponse(message(asked.body, "x", usage=None))
    found = ask(anthropic(server))
    assert (found.input_tokens, found.output_tokens) == (None, None)


@pytest.mark.parametrize("kind", BACKENDS)
def test_nobody_there_is_named_after_asking_again(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = ModelServer(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", lambda _: "")
    waits: list[float] = []
    with pytest.raises(ModelUnreachable, match="at try 4"):
        ask(backend(kind, gone, waits))
    assert waits == [0.5, 1.0, 2.0]


def test_a_server_that_is_too_slow_is_named(server: ModelServer) -> None:
    def slow(_: Asked) -> str:
        time.sleep(0.3)
        return "late"

    server.answer = slow
    patience = Patience(timeout_s=0.05, tries=2)
    settings = OpenAISettings(model="m", base_url=server.url)
    model = OPENED.enter_context(closing(OpenAI(settings, patience, pause=lambda _: None)))
    with pytest.raises(ModelUnreachable, match=r"Timeout.*0\.05 s"):
        ask(model)


def test_a_connection_that_breaks_is_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as half:
        half.settimeout(5)
        url = f"http://127.0.0.1:{half.getsockname()[1]}/v1"
        waits: list[float] = []

        def hang_up() -> None:
            for _ in range(3):
                half.accept()[0].close()

        settings, patience = OpenAISettings(model="m", base_url=url), Patience(timeout_s=5, tries=3)
        model = OPENED.enter_context(closing(OpenAI(settings, patience, pause=waits.append)))
        with ThreadPoolExecutor(1) as pool:
            hung_up = pool.submit(hang_up)
            with pytest.raises(ModelUnreachable, match="at try 3"):
                ask(model)
            hung_up.result()
    assert waits == [0.5, 1.0]


@pytest.mark.parametrize("kind", BACKENDS)
def test_the_key_is_in_no_message_no_log_and_no_text_of_an_object(
    server: ModelServer, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = backend(kind, server)
    replies = [fault(401, f"wrong key {KEY}"), fault(400, f"{KEY}"), Response(f"not json {KEY}"), fault(404, KEY)]
    for reply in replies:
        server.answer = saying(reply)
        with pytest.raises(ModelFailure) as caught:
            ask(model)
        assert KEY not in str(caught.value) + repr(caught.value.facts)
        assert "[key]" in str(caught.value)
    settings = AnthropicSettings(model="m", api_key=SecretStr(KEY)), OpenAISettings(model="m", api_key=SecretStr(KEY))
    assert KEY not in repr(settings) + repr(model) + repr(vars(model)) + caplog.text


@pytest.mark.parametrize(
    "url",
    ["", "api.test/v1", "ftp://api.test", "http://", "http://[", "http://a.test/v1?key=x", "http://user:pw@a.test/v1"],
)
def test_an_address_that_cannot_be_used_is_named(url: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        OpenAI(OpenAISettings(model="m", base_url=url))
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_fits_no_header_is_named_but_not_shown(key: str) -> None:
    with pytest.raises(BadEndpoint) as caught:
        Anthropic(AnthropicSettings(model="m", api_key=SecretStr(key)))
    assert key not in str(caught.value)


def test_one_model_answers_many_threads(server: ModelServer) -> None:
    server.answer = lambda asked: asked.text[-3:]
    model = openai(server)
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda n: ask(model, messages=(ChatMessage("user", (f"{n:03}",)),)).samples[0].text, range(60))
        )
    assert answers == [f"{n:03}" for n in range(60)]
