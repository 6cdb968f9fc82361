"""Model calls of outside agents, as the log holds them: what is taken out, what is joined, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from api.serving.anthropic_calls import join_messages, read_messages
from api.serving.calls import read_object
from api.serving.distributions import STATED, distribution_of
from api.serving.errors import BadCall
from api.serving.openai_calls import join_chat, read_chat, read_chat_answer, with_additions, without_additions

PIXEL = "iVBORw0KGgo="
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "?"}]}


def test_a_screenshot_in_the_result_of_a_tool_becomes_a_blob() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "done"}, picture]}
    call = read_messages({"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": [result]}]})
    (blob,) = call.pictures
    (message,) = call.messages
    assert blob.media_type == "image/png"
    assert PIXEL not in str(message)
    assert blob.digest in str(message)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"a": NaN}', b'{"a": "\\ud83d"}'])
def test_what_the_log_cannot_hold_is_refused_before_anything_is_sent(body: bytes) -> None:
    with pytest.raises(BadCall, match="JSON"):
        read_object(body)


@pytest.mark.parametrize("asked", [{}, {"logprobs": False}, {"logprobs": True}, {"logprobs": 0}, {"logprobs": 3}])
def test_a_caller_gets_logprobs_exactly_if_it_asked_for_them(asked: dict[str, Any]) -> None:
    body = {**CHAT, **asked}
    sent = with_additions(body, logprobs=True, token_ids=True, is_chat=True)
    wants = asked.get("logprobs") is not None and asked["logprobs"] is not False
    assert sent["logprobs"] == (asked["logprobs"] if wants else True)
    answer = {"choices": [{"index": 0, "logprobs": {"content": []}, "token_ids": [1]}], "prompt_token_ids": [1]}
    shown = without_additions(answer, body)
    assert shown is not None
    assert ("logprobs" in shown["choices"][0]) is wants
    assert "prompt_token_ids" not in shown


@pytest.mark.parametrize(
    ("asked", "is_constrained"),
    [
        ({}, False),
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"tool_choice": "auto"}, False),
        ({"tool_choice": "required"}, True),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, True),
        ({"tools": [{"type": "function", "function": {"name": "f"}}, 7]}, False),
        ({"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, True),
        ({"guided_regex": "a+"}, True),
        ({"json_schema": {"type": "object"}}, True),
    ],
)
def test_a_call_whose_tokens_were_not_freely_drawn_is_marked(asked: dict[str, Any], is_constrained: bool) -> None:
    assert read_chat({**CHAT, **asked}).is_constrained is is_constrained


@pytest.mark.parametrize(
    ("asked", "distribution"),
    [
        ({}, None),
        ({"temperature": 0.7, "top_p": 0.9}, None),
        ({"top_k": 0, "presence_penalty": 0.0, "logit_bias": {}, "min_tokens": 0}, None),
        ({"top_k": 40}, "changed"),
        ({"min_p": 0.05}, "changed"),
        ({"repetition_penalty": 1.1}, "changed"),
        ({"frequency_penalty": -0.5}, "changed"),
        ({"logit_bias": {"5": 100}}, "changed"),
        ({"allowed_token_ids": [5, 6]}, "changed"),
        ({"min_tokens": 4}, "changed"),
        ({"temperature": None}, "unknown"),
        ({"top_k": None}, "unknown"),
    ],
)
def test_what_was_drawn_by_more_than_temperature_and_top_p_is_marked(
    asked: dict[str, Any], distribution: str | None
) -> None:
    assert distribution_of({**CHAT, **STATED, **asked}) == distribution
    assert distribution_of({**CHAT, **asked}) == ("changed" if distribution == "changed" else "unknown")


def test_parts_of_a_stream_join_to_the_whole_answer() -> None:
    first = {"index": 0, "delta": {"role": "assistant", "tool_calls": [_call(0, "t1", "find", '{"a"')]}}
    second = {"index": 0, "delta": {"tool_calls": [_call(0, None, "", ": 1}")]}, "finish_reason": "tool_calls"}
    parts = [{"model": "m", "choices": [each]} for each in (first, second)]
    found = read_chat_answer(
        join_chat([*parts, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}])
    )
    (sample,) = found.samples
    assert sample["tool_calls"] == [
        {"id": "t1", "type": "function", "function": {"name": "find", "arguments": '{"a": 1}'}}
    ]
    assert (found.model, found.input_tokens, found.output_tokens, sample["finish"]) == ("m", 3, 2, "stop")


def test_a_function_that_is_called_in_the_older_way_is_a_tool_call() -> None:
    function = {"name": "find", "arguments": '{"a": 1}'}
    told = {"role": "assistant", "content": None, "function_call": function}
    parts = [
        {"choices": [{"index": 0, "delta": {"function_call": {"name": "find", "arguments": '{"a"'}}}]},
        {
            "choices": [
                {"index": 0, "delta": {"function_call": {"arguments": ": 1}"}}, "finish_reason": "function_call"}
            ]
        },
    ]
    for whole in ({"choices": [{"index": 0, "message": told}]}, join_chat(parts)):
        (sample,) = read_chat_answer(whole).samples
        calls: Any = sample["tool_calls"]
        assert [call["function"] for call in calls] == [function]


def _call(index: int, call_id: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("pieces", "recorded"),
    [
        (("", '{"town": ', '"Bern"}'), {"town": "Bern"}),
        ((), {}),
        (("",), {}),
        (('{"town": "Be',), '{"town": "Be'),
        (('{"degrees": NaN}',), '{"degrees": NaN}'),
        (("[" * 100_000,), "[" * 100_000),
    ],
)
def test_the_input_of_a_streamed_tool_is_recorded_as_an_object_where_it_is_one(
    pieces: tuple[str, ...], recorded: object
) -> None:
    block = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    parts: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": {"partial_json": piece}} for piece in pieces),
    ]
    assert join_messages(parts)["content"] == [block | {"input": recorded}]
