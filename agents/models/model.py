"""Interface of models: messages and explicit sampling parameters in, samples with their tokens out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from eventlog.events import Sampling

from .errors import NotOffered

MICRO: Final = 1_000_000

Role = Literal["system", "user", "assistant"]

Finish = Literal["stop", "length", "filtered", "other"]
"""stop: the answer ended or reached a stop text. length: it ran out of tokens. filtered: the model or host refused."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message, such as a screenshot."""

    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of one role: texts and images, in order."""

    role: Role
    parts: tuple[str | Image, ...]

    @property
    def text(self) -> str:
        """Texts of the message, one per line."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON schema that an answer must fit; the name is shown to the model (letters, digits, `_`, `-`)."""

    name: str
    schema: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request for samples."""

    messages: tuple[ChatMessage, ...]
    sampling: Sampling
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A sampled token and the natural logarithm of its probability."""

    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Sample:
    """A sampled answer. `tokens` and `token_ids` are None if they were not requested or are not offered.

    If both are set, they list the same tokens in the same order.
    """

    text: str
    finish: Finish
    tokens: tuple[Token, ...] | None = None
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """Digests of the tokenizer and chat template that made the tokens, and the kind of their logprobs.

    `processed` logprobs are those of the distribution sampled from, after temperature, truncation and schema. Others
    are the model's raw logprobs.
    """

    tokenizer: str
    chat_template: str
    processed: bool


@dataclass(frozen=True, slots=True)
class Completion:
    """Answer to a request: samples in order, name of the served model, token counts (None if not reported)."""

    model: str
    samples: tuple[Sample, ...]
    input_tokens: int | None
    output_tokens: int | None
    prompt_token_ids: tuple[int, ...] | None = None
    served: Served | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its completion."""

    request: CompletionRequest
    completion: Completion


@dataclass(frozen=True, slots=True)
class Offers:
    """Features of a backend beyond text in, text out."""

    logprobs: bool
    token_ids: bool
    seed: bool
    images: bool
    schema: bool


class Model(Protocol):
    """A model. Thread-safe. `name` identifies it in every process, for example `openai:gpt-x`."""

    @property
    def name(self) -> str:
        """Name of the backend and of the model there."""
        ...

    @property
    def offers(self) -> Offers:
        """Features that requests may use."""
        ...

    def complete(self, request: CompletionRequest) -> Completion:
        """Sample answers. Raises ModelFailure; NotOffered if the request needs a feature that the model lacks."""
        ...


@dataclass(frozen=True, slots=True)
class WithoutLogprobs:
    """A Model of which no logprobs are requested, because its server returns none."""

    model: Model

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return replace(self.model.offers, logprobs=False)

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete."""
        refuse_unoffered(self.name, self.offers, request)
        return self.model.complete(request)


def refuse_unoffered(name: str, offers: Offers, request: CompletionRequest) -> None:
    """Raise NotOffered if a request needs a feature that the model does not offer."""
    sampling = request.sampling
    asked = {
        "logprobs": sampling.wants_logprobs and not offers.logprobs,
        "seed": sampling.seed is not None and not offers.seed,
        "structured output": request.schema is not None and not offers.schema,
        "images": not offers.images and any(isinstance(p, Image) for m in request.messages for p in m.parts),
    }
    for what, is_missing in asked.items():
        if is_missing:
            raise NotOffered(model=name, actual=what)
