"""Streams with tools and pictures through the capture proxy: what the clients put together, and what the log holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import anthropic
from starlette.responses import StreamingResponse

from eventlog.blobs.conversations import get_messages
from tests.model_server import Asked, message

from .test_capture_proxy import (
    MODEL,
    PIXEL,
    USAGE,
    WEATHER,
    calls_of,
    client_at,
    completion_of,
    served,
    streamed,
)

__all__ = ["served"]

SHOWN: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}


def test_a_tool_that_openais_client_is_streamed_in_pieces_is_recorded_whole(served: Callable[..., Any]) -> None:
    def called(arguments: str, **more: Any) -> dict[str, Any]:
        return chunk(
            {"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more.pop("named", {})}} | more]}
        )

    first = called("", id="t1", type="function", named={"name": "weather"})
    parts = [first, called('{"town": '), called('"Bern"}'), chunk({}, "tool_calls"), USAGE]
    proxy, _ = served(streamed(parts))
    tools: Any = [WEATHER]
    with client_at(proxy, "ext-1").chat.completions.stream(
        model=MODEL, messages=[{"role": "user", "content": "rain in Bern?"}], tools=tools
    ) as stream:
        answered: Any = stream.get_final_completion().choices[0].message
    (call,) = calls_of(proxy[2], "ext-1")
    (recorded,) = completion_of(proxy[2], call)["samples"][0]["tool_calls"]
    (seen,) = answered.tool_calls
    assert (seen.function.name, json.loads(seen.function.arguments)) == ("weather", {"town": "Bern"})
    assert (recorded["id"], recorded["function"]) == ("t1", {"name": "weather", "arguments": '{"town": "Bern"}'})


def test_a_tool_that_anthropics_client_is_streamed_after_a_picture_is_recorded_with_it(
    served: Callable[..., Any],
) -> None:
    begun = message({"model": MODEL}, "") | {"content": [], "stop_reason": None}
    block = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
    pieces = [{"type": "input_json_delta", "partial_json": each} for each in ("", '{"town": ', '"Bern"}')]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]

    def answer(_: Asked) -> StreamingResponse:
        lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        return StreamingResponse(lines, media_type="text/event-stream")

    proxy, upstream = served(answer, model_api="anthropic")
    address, token, house = proxy
    client = anthropic.Anthropic(base_url=f"{address}/ext-1", api_key=token, max_retries=0)
    asked: Any = {
        "model": MODEL,
        "max_tokens": 9,
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [SHOWN, {"type": "text", "text": "rain here?"}]}],
    }
    with client.messages.stream(**asked) as stream:
        content: Any = stream.get_final_message().content
    assert upstream.asked[0].body["messages"][0]["content"][0] == SHOWN
    (call,) = calls_of(house, "ext-1")
    (told,) = get_messages(house.blobs, call.messages)
    shown: Any = told["content"]
    (recorded,) = completion_of(house, call)["samples"][0]["tool_calls"]
    assert house.blobs.get(shown[0]["image"]).media_type == "image/png"
    assert [(each.type, each.input) for each in content] == [("tool_use", {"town": "Bern"})]
    assert (recorded["id"], recorded["name"], recorded["input"]) == ("t1", "weather", {"town": "Bern"})
