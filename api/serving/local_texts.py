"""The dialect of OpenAI's completions for a model in this process: a text or token ids that the model continues."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from itertools import accumulate
from typing import Any, Final

from agents.models.drawn_texts import TextRequest
from agents.models.model import Completion, Sample

from .calls import sampling_of
from .drawn_stream import DrawnStream
from .errors import BadCall
from .local_chats import openai_usage
from .openai_calls import asks_logprobs, most_tokens_of_text
from .plain_texts import refuse_beyond_text, with_seed

_REFUSED: Final = {"suffix": "none: the model continues a text", "best_of": "none: every answer is given"}


def read_text_request(body: Mapping[str, Any]) -> TextRequest:
    """A text to continue as a request to a model, whose shape was checked. Raises BadCall."""
    refuse_beyond_text(body)
    for name, expected in _REFUSED.items():
        if body.get(name) not in (None, "", body.get("n") or 1):
            raise BadCall(where=name, actual="given", expected=expected)
    if (body.get("logprobs") or 0) > 1:
        raise BadCall(where="logprobs", actual=str(body["logprobs"]), expected="1: of the drawn tokens alone")
    most, prompt = most_tokens_of_text(body), body["prompt"]
    sampling = sampling_of(body, most, body.get("stop"), wants_logprobs=asks_logprobs(body))
    return TextRequest(prompt if isinstance(prompt, str) else tuple(prompt), with_seed(sampling))


def text_answer(found: Completion, body: Mapping[str, Any]) -> dict[str, Any]:
    """A completion as one of OpenAI's API, with token ids if the body asks for them."""
    ids = bool(body.get("return_token_ids"))
    return {
        **_head(found.model),
        "choices": [_choice(place, sample, ids=ids) for place, sample in enumerate(found.samples)],
        "usage": openai_usage(found),
        **({"prompt_token_ids": list(found.prompt_token_ids or ())} if ids else {}),
    }


async def text_stream(
    drawn: DrawnStream, drawing: asyncio.Future[Completion], name: str, body: Mapping[str, Any]
) -> AsyncIterator[Mapping[str, Any]]:
    """A completion as the parts of a stream: pieces as they are drawn, the rest of each sample, and the usage.

    The last piece of a sample brings its logprobs and token ids. Raises what the drawing raises.
    """
    head = _head(name)
    async for sample, piece in drawn.pieces():
        yield {**head, "choices": [{"index": sample, "text": piece, "logprobs": None, "finish_reason": None}]}
    whole = text_answer(await drawing, body)
    for choice in whole["choices"]:
        yield {**head, "choices": [{**choice, "text": drawn.rest(choice["index"], choice["text"])}]}
    prompt = {"prompt_token_ids": whole["prompt_token_ids"]} if "prompt_token_ids" in whole else {}
    yield {**head, "choices": [], "usage": whole["usage"], **prompt}


def _head(model: str) -> dict[str, Any]:
    made = {"id": f"cmpl-{secrets.token_hex(8)}", "created": int(time.time())}
    return {**made, "object": "text_completion", "model": model}


def _choice(place: int, sample: Sample, *, ids: bool) -> dict[str, Any]:
    logprobs: dict[str, Any] | None = None
    if sample.tokens is not None:
        texts = [each.text for each in sample.tokens]
        logprobs = {
            "tokens": texts,
            "token_logprobs": [each.logprob for each in sample.tokens],
            "top_logprobs": None,
            "text_offset": list(accumulate((len(text) for text in texts[:-1]), initial=0))[: len(texts)],
        }
    return {
        "index": place,
        "text": sample.text,
        "finish_reason": "length" if sample.finish == "length" else "stop",
        "logprobs": logprobs,
        **({"token_ids": list(sample.token_ids or ())} if ids else {}),
    }
