"""Client for chat completion endpoints compatible with OpenAI: hosted, vLLM, llama.cpp, a proxy."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from eventlog.events import Sampling

from .errors import LogprobsMissing, LogprobsRaw
from .model import (
    MICRO,
    ChatMessage,
    Completion,
    CompletionRequest,
    Finish,
    Image,
    Offers,
    Sample,
    Served,
    Token,
    refuse_unoffered,
)
from .processed import scaling_of_logprobs
from .wire import Endpoint, EndpointAnswer, Patience

BASE_URL: Final = "https://api.openai.com/v1"
DIGEST: Final = r"^[0-9a-f]{64}$"
ROUNDING: Final = 1e-3
"""Largest logprob above 0 that is accepted as a rounding error of the server. It counts as 0."""

_FINISH: Final[dict[str, Finish]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "filtered",
    "tool_calls": "stop",
    "function_call": "stop",
}

_BETWEEN: Final = 1.5
"""Between 1, of raw logprobs, and 2, of processed ones (`scaling_of_logprobs`)."""
_TOP: Final = 5

UNCUT: Final = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
"""Sent to vLLM so that it samples from the full distribution.

Otherwise it takes these fields from the model's generation_config.json.
"""


class OpenAISettings(BaseModel):
    """Name and address of a model, and what its server supports. `base_url` usually ends in /v1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1, max_length=150)
    base_url: str = BASE_URL
    api_key: SecretStr | None = None
    offers_logprobs: bool = True
    offers_token_ids: bool = Field(default=False, description="vLLM's return_token_ids")
    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    tokenizer: str | None = Field(default=None, pattern=DIGEST, description="SHA-256 of its tokenizer.json")
    chat_template: str | None = Field(default=None, pattern=DIGEST, description="SHA-256 of its chat template")
    processed_logprobs: bool = Field(default=False, description="vLLM's --logprobs-mode processed_logprobs")
    extra_headers: dict[str, str] = Field(default_factory=dict, repr=False)


class _Likely(EndpointAnswer):
    token: str
    logprob: float


class _Logprob(EndpointAnswer):
    token: str
    logprob: float
    top_logprobs: tuple[_Likely, ...] = ()


class _Logprobs(EndpointAnswer):
    content: tuple[_Logprob, ...] | None = None


class _Said(EndpointAnswer):
    content: str | None = None
    refusal: str | None = None


class _Choice(EndpointAnswer):
    index: int = 0
    message: _Said
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: tuple[int, ...] | None = None


class _Usage(EndpointAnswer):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Answered(EndpointAnswer):
    model: str | None = None
    choices: tuple[_Choice, ...]
    usage: _Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class OpenAI:
    """A Model over `POST {base_url}/chat/completions`. Raises BadEndpoint if the settings are invalid."""

    def __init__(
        self,
        settings: OpenAISettings,
        patience: Patience | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = f"openai:{settings.model}"
        self.offers = Offers(
            logprobs=settings.offers_logprobs,
            token_ids=settings.offers_token_ids,
            seed=True,
            images=True,
            schema=not settings.offers_token_ids,  # ids are for training, and answers under a schema are no rows of it
        )
        self._settings = settings
        self._checking = Lock()
        self._is_checked = False
        self._served = None
        if settings.tokenizer is not None and settings.chat_template is not None:
            self._served = Served(settings.tokenizer, settings.chat_template, settings.processed_logprobs)
        self._endpoint = Endpoint(
            settings.base_url,
            settings.api_key,
            secret_header="Authorization",  # noqa: S106 (the name of a header)
            secret_prefix="Bearer ",  # noqa: S106
            headers=settings.extra_headers,
            patience=patience,
            pause=pause,
            now=now,
        )

    def close(self) -> None:
        """Close the pool of connections."""
        self._endpoint.close()

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Raises LogprobsRaw if the settings call logprobs processed that are not."""
        refuse_unoffered(self.name, self.offers, request)
        if request.sampling.wants_logprobs:
            self._check_processed()
        answer = self._endpoint.post("chat/completions", self._body(request), _Answered)
        wanted = request.sampling.samples
        if len(answer.choices) != wanted:
            raise self._endpoint.answer_error(f"it has {len(answer.choices)} choices", f"{wanted}, as requested")
        choices = sorted(answer.choices, key=lambda choice: choice.index)
        usage = answer.usage or _Usage()
        return Completion(
            model=answer.model or self._settings.model,
            samples=tuple(self._sample(choice, request) for choice in choices),
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            prompt_token_ids=answer.prompt_token_ids,
            served=self._served,
        )

    def _check_processed(self) -> None:
        """Ask the server once whether its logprobs are processed, if the settings say that they are."""
        with self._checking:
            if self._is_checked or not self._settings.processed_logprobs:
                return
            found = scaling_of_logprobs(self._likeliest)
            if found is not None and found < _BETWEEN:
                raise LogprobsRaw(url=self._endpoint.url, actual=f"{found:.3g}")
            self._is_checked = True

    def _likeliest(self, temperature_micro: int) -> dict[str, float]:
        sampling = Sampling(temperature_micro=temperature_micro, max_tokens=1, wants_logprobs=True)
        body = self._body(CompletionRequest((ChatMessage("user", ("Name a colour.",)),), sampling))
        answer = self._endpoint.post("chat/completions", body | {"top_logprobs": _TOP}, _Answered)
        told = [choice.logprobs.content for choice in answer.choices if choice.logprobs is not None]
        first = next((content[0] for content in told if content), None)
        return {} if first is None else {each.token: each.logprob for each in first.top_logprobs}

    def _body(self, request: CompletionRequest) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": [openai_message(message) for message in request.messages],
            self._settings.length_field: sampling.max_tokens,
            "temperature": sampling.temperature_micro / MICRO,
            "top_p": sampling.top_p_micro / MICRO,
            "n": sampling.samples,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.wants_logprobs:
            body["logprobs"] = True
        if self._settings.offers_token_ids:
            body |= {"return_token_ids": True, **UNCUT}
        if request.schema is not None:
            schema = {"name": request.schema.name, "schema": dict(request.schema.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _sample(self, choice: _Choice, request: CompletionRequest) -> Sample:
        said = choice.message
        tokens = self._tokens(choice) if request.sampling.wants_logprobs else None
        ids = choice.token_ids
        if self._settings.offers_token_ids and ids is None:
            raise self._endpoint.answer_error("it has no token_ids", "those requested (is the server vLLM?)")
        if tokens is not None and ids is not None and len(tokens) != len(ids):
            raise self._endpoint.answer_error(
                f"it has {len(tokens)} logprobs and {len(ids)} token_ids", "one of each per token"
            )
        finish = _FINISH.get(choice.finish_reason or "", "other")
        is_refusal = said.content is None and said.refusal is not None
        return Sample(said.content or "", "filtered" if is_refusal else finish, tokens, ids)

    def _tokens(self, choice: _Choice) -> tuple[Token, ...]:
        found = None if choice.logprobs is None else choice.logprobs.content
        if found is None:
            raise LogprobsMissing(url=self._endpoint.url)
        bad = [each.logprob for each in found if not math.isfinite(each.logprob) or each.logprob > ROUNDING]
        if bad:
            raise self._endpoint.answer_error(f"a logprob is {bad[0]}", "finite logprobs, none above 0")
        return tuple(Token(each.token, min(0.0, each.logprob)) for each in found)


def openai_message(message: ChatMessage) -> dict[str, Any]:
    """A message in wire format. Without images its content is plain text, which every server accepts."""
    if not any(isinstance(part, Image) for part in message.parts):
        return {"role": message.role, "content": message.text}
    return {"role": message.role, "content": [_part(part) for part in message.parts]}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(part.body).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}}
