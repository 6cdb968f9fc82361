"""The dialect of OpenAI's chats for a model in this process: a chat as a request, a completion as a chat."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from agents.models.model import ChatMessage, Completion, CompletionRequest, Role, Sample

from .calls import message_list, sampling_of
from .drawn_stream import DrawnStream
from .errors import BadCall
from .plain_texts import refuse_beyond_text, texts_of, with_seed

MOST_TOKENS: Final = 512
"""Tokens of an answer whose caller gives no bound."""
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def read_chat_request(body: Mapping[str, Any]) -> CompletionRequest:
    """A chat as a request to a model. Without a seed it gets a drawn one, as at any model server. Raises BadCall."""
    refuse_beyond_text(body)
    most = body.get("max_completion_tokens") or body.get("max_tokens") or MOST_TOKENS
    sampling = sampling_of(body, most, body.get("stop"), wants_logprobs=bool(body.get("logprobs")))
    messages = tuple(_message(place, each) for place, each in enumerate(message_list(body)))
    return CompletionRequest(messages, with_seed(sampling))


def _message(place: int, message: Mapping[str, Any]) -> ChatMessage:
    role = _ROLES.get(message["role"])
    if role is None:
        raise BadCall(where=f"messages.{place}.role", actual=repr(message["role"]), expected=", ".join(_ROLES))
    return ChatMessage(role, texts_of(message.get("content"), f"messages.{place}.content"))


def chat_answer(found: Completion, body: Mapping[str, Any]) -> dict[str, Any]:
    """A completion as a chat completion of OpenAI's API, with logprobs and token ids if the body asks for them."""
    ids = bool(body.get("return_token_ids"))
    return {
        "id": _new_id(),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": found.model,
        "choices": [_choice(place, sample, ids=ids) for place, sample in enumerate(found.samples)],
        "usage": openai_usage(found),
        **({"prompt_token_ids": list(found.prompt_token_ids or ())} if ids else {}),
    }


def openai_usage(found: Completion) -> dict[str, int | None]:
    """The numbers of tokens of a completion, as OpenAI's API names them."""
    read, written = found.input_tokens, found.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": (read or 0) + (written or 0)}


def _choice(place: int, sample: Sample, *, ids: bool) -> dict[str, Any]:
    tokens: list[dict[str, Any]] = [
        {"token": each.text, "logprob": each.logprob, "bytes": None, "top_logprobs": []} for each in sample.tokens or ()
    ]
    return {
        "index": place,
        "message": {"role": "assistant", "content": sample.text, "refusal": None},
        "finish_reason": "length" if sample.finish == "length" else "stop",
        "logprobs": None if sample.tokens is None else {"content": tokens, "refusal": None},
        **({"token_ids": list(sample.token_ids or ())} if ids else {}),
    }


async def chat_stream(
    drawn: DrawnStream, drawing: asyncio.Future[Completion], name: str, body: Mapping[str, Any]
) -> AsyncIterator[Mapping[str, Any]]:
    """A chat completion as the parts of a stream: pieces of its samples as they are drawn, their ends, and the usage.

    The last piece of a sample brings its logprobs and token ids. Raises what the drawing raises.
    """
    head = {"id": _new_id(), "object": "chat.completion.chunk", "created": int(time.time()), "model": name}
    async for sample, piece in drawn.pieces():
        delta = _role(is_first=drawn.shown[sample] == piece) | {"content": piece}
        yield {**head, "choices": [{"index": sample, "delta": delta, "finish_reason": None, "logprobs": None}]}
    whole = chat_answer(await drawing, body)
    for choice in whole["choices"]:
        said = {key: value for key, value in choice.items() if key not in {"message", "finish_reason"}}
        rest = drawn.rest(choice["index"], choice["message"]["content"])
        delta = _role(is_first=choice["index"] not in drawn.shown) | {"content": rest}
        yield {**head, "choices": [{**said, "delta": delta, "finish_reason": None}]}
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"], "logprobs": None}
        yield {**head, "choices": [end]}
    prompt = {"prompt_token_ids": whole["prompt_token_ids"]} if "prompt_token_ids" in whole else {}
    yield {**head, "choices": [], "usage": whole["usage"], **prompt}


def _role(*, is_first: bool) -> dict[str, str]:
    return {"role": "assistant"} if is_first else {}


def _new_id() -> str:
    return f"chatcmpl-{secrets.token_hex(8)}"
