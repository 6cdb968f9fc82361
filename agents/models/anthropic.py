"""Client for Anthropic's messages API. It offers no logprobs, no token ids and no seed."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from .model import MICRO, ChatMessage, Completion, CompletionRequest, Finish, Image, Offers, Sample, refuse_unoffered
from .wire import Endpoint, EndpointAnswer, Patience

BASE_URL: Final = "https://api.anthropic.com/v1"
VERSION: Final = "2023-06-01"

_FINISH: Final[dict[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}


class AnthropicSettings(BaseModel):
    """Name, key and address of a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1, max_length=150)
    api_key: SecretStr
    base_url: str = BASE_URL
    extra_headers: dict[str, str] = Field(default_factory=dict, repr=False)


class _Block(EndpointAnswer):
    type: str
    text: str = ""
    name: str | None = None
    input: dict[str, JsonValue] | None = None


class _Usage(EndpointAnswer):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def read(self) -> int | None:
        """All tokens of the prompt. The wire counts those written to or read from a cache separately."""
        if self.input_tokens is None:
            return None
        return self.input_tokens + (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)


class _Answered(EndpointAnswer):
    model: str
    content: tuple[_Block, ...]
    stop_reason: str | None = None
    usage: _Usage | None = None


class Anthropic:
    """A Model over `POST {base_url}/messages`. Each sample is a separate call.

    Structured output is requested as the input of a tool that the model must call. Raises BadEndpoint.
    """

    def __init__(
        self,
        settings: AnthropicSettings,
        patience: Patience | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = f"anthropic:{settings.model}"
        self.offers = Offers(logprobs=False, token_ids=False, seed=False, images=True, schema=True)
        self._settings = settings
        self._endpoint = Endpoint(
            settings.base_url,
            settings.api_key,
            secret_header="x-api-key",  # noqa: S106 (the name of a header)
            headers={**settings.extra_headers, "anthropic-version": VERSION},
            patience=patience,
            pause=pause,
            now=now,
        )

    def close(self) -> None:
        """Close the pool of connections."""
        self._endpoint.close()

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete."""
        refuse_unoffered(self.name, self.offers, request)
        body = self._body(request)
        answers = [self._endpoint.post("messages", body, _Answered) for _ in range(request.sampling.samples)]
        usages = [answer.usage or _Usage() for answer in answers]
        return Completion(
            model=answers[-1].model,
            samples=tuple(self._sample(answer, request) for answer in answers),
            input_tokens=_sum([usage.read for usage in usages]),
            output_tokens=_sum([usage.output_tokens for usage in usages]),
        )

    def _body(self, request: CompletionRequest) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._settings.model,
            "max_tokens": sampling.max_tokens,
            "messages": [anthropic_message(message) for message in request.messages if message.role != "system"],
            "temperature": sampling.temperature_micro / MICRO,
        }
        system = "\n\n".join(message.text for message in request.messages if message.role == "system")
        if system:
            body["system"] = system
        if sampling.top_p_micro != MICRO:
            body["top_p"] = sampling.top_p_micro / MICRO
        if sampling.stop:
            body["stop_sequences"] = list(sampling.stop)
        if request.schema is not None:
            told = "Give the answer here."
            schema = {
                "name": request.schema.name,
                "description": told,
                "input_schema": dict(request.schema.schema),
            }
            body |= {"tools": [schema], "tool_choice": {"type": "tool", "name": request.schema.name}}
        return body

    def _sample(self, answer: _Answered, request: CompletionRequest) -> Sample:
        finish = _FINISH.get(answer.stop_reason or "", "other")
        if request.schema is None:
            return Sample("".join(block.text for block in answer.content if block.type == "text"), finish)
        given = next((block.input for block in answer.content if block.name == request.schema.name), None)
        if given is None and finish == "stop":
            raise self._endpoint.answer_error(
                "it calls no tool", f"a call of {request.schema.name!r}, the tool it must call"
            )
        return Sample("" if given is None else json.dumps(given, ensure_ascii=False), finish)


def anthropic_message(message: ChatMessage) -> dict[str, Any]:
    """A message in wire format."""
    return {"role": message.role, "content": [_part(part) for part in message.parts]}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(part.body).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
