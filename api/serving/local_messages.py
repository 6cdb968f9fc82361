"""The dialect of Anthropic for a model in this process: a message as a request, a completion as a message.

What recording needs and Anthropic's API has no field for (token ids, logprobs) is under RECORDED, which no caller gets.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agents.models.model import ChatMessage, Completion, CompletionRequest
from eventlog.events import Sampling

from .anthropic_calls import RECORDED
from .calls import message_list, sampling_of
from .drawn_stream import DrawnStream
from .errors import BadCall
from .plain_texts import refuse_beyond_text, texts_of, with_seed

_ROLES = ("user", "assistant")


def read_messages_request(body: Mapping[str, Any], *, wants_logprobs: bool) -> CompletionRequest:
    """A message as a request to a model, with its system prompt first. Raises BadCall."""
    refuse_beyond_text(body)
    stops = body.get("stop_sequences")
    sampling: Sampling = sampling_of(body, body.get("max_tokens"), stops, wants_logprobs=wants_logprobs)
    system = body.get("system")
    told = () if not system else (ChatMessage("system", texts_of(system, "system")),)
    messages = (_message(place, each) for place, each in enumerate(message_list(body)))
    return CompletionRequest((*told, *messages), with_seed(sampling.model_copy(update={"samples": 1})))


def _message(place: int, message: Mapping[str, Any]) -> ChatMessage:
    role = message["role"]
    if role not in _ROLES:
        raise BadCall(where=f"messages.{place}.role", actual=repr(role), expected=", ".join(_ROLES))
    return ChatMessage(role, texts_of(message.get("content"), f"messages.{place}.content"))


def message_answer(found: Completion) -> dict[str, Any]:
    """A completion as a message of Anthropic's API."""
    (sample,) = found.samples
    tokens = sample.tokens
    return {
        **_head(found.model),
        "content": [{"type": "text", "text": sample.text}],
        "stop_reason": "max_tokens" if sample.finish == "length" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": found.input_tokens or 0, "output_tokens": found.output_tokens or 0},
        RECORDED: {
            "prompt_token_ids": list(found.prompt_token_ids or ()),
            "token_ids": list(sample.token_ids or ()),
            "tokens": None if tokens is None else [each.text for each in tokens],
            "logprobs": None if tokens is None else [each.logprob for each in tokens],
        },
    }


async def message_stream(
    drawn: DrawnStream, drawing: asyncio.Future[Completion], name: str
) -> AsyncIterator[Mapping[str, Any]]:
    """A message as the events of a stream, its text in pieces as they are drawn. Raises what the drawing raises."""
    usage = {"input_tokens": drawn.input_tokens, "output_tokens": 0}
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": {**_head(name), **empty}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    async for _, piece in drawn.pieces():
        yield _delta(piece)
    whole = message_answer(await drawing)
    rest = drawn.rest(0, whole["content"][0]["text"])
    if rest or not drawn.shown:
        yield _delta(rest)
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    told = {"usage": {"output_tokens": whole["usage"]["output_tokens"]}, RECORDED: whole[RECORDED]}
    yield {"type": "message_delta", "delta": ended, **told}
    yield {"type": "message_stop"}


def _head(model: str) -> dict[str, Any]:
    return {"id": f"msg_{secrets.token_hex(8)}", "type": "message", "role": "assistant", "model": model}


def _delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
