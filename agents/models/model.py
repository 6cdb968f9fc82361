"""What a model is to the rest of Flywheel: messages and explicit sampling in, samples with their tokens out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from eventlog.events import Sampling

from .errors import NotOffered

MICRO: Final = 1_000_000

Role = Literal["system", "user", "assistant"]

Finish = Literal["stop", "length", "filtered", "other"]
"""stop: it came to an end, or to a stop text. length: it ran out of tokens. filtered: it or its host declined."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message, such as a screenshot."""

    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """What one side said: texts and pictures, in order."""

    role: Role
    parts: tuple[str | Image, ...]

    @property
    def text(self) -> str:
        """The texts of it, a line each."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Schema:
    """The JSON schema that an answer must fit; the name is shown to the model (letters, digits, `_`, `-`)."""

    name: str
    schema: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One question."""

    messages: tuple[ChatMessage, ...]
    sampling: Sampling
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One drawn token and the natural logarithm of its probability."""

    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One drawn answer. `tokens` and `token_ids` are None where they were not asked for or are not offered.

    Where both are there, they are of the same tokens, in order.
    """

    text: str
    finish: Finish
    tokens: tuple[Token, ...] | None = None
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What made the tokens: the digests of tokenizer and chat template, and what the logprobs are of.

    `processed` ones are of the distribution that was drawn from, after temperature, cuts and schema; others are the
    model's own.
    """

    tokenizer: str
    chat_template: str
    processed: bool


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back: the samples in order, the model as it was served, tokens used (None: not told)."""

    model: str
    samples: tuple[Sample, ...]
    input_tokens: int | None
    output_tokens: int | None
    prompt_token_ids: tuple[int, ...] | None = None
    served: Served | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was asked, and what came back."""

    request: CompletionRequest
    completion: Completion


@dataclass(frozen=True, slots=True)
class Offers:
    """What a backend can do beyond text in, text out."""

    logprobs: bool
    token_ids: bool
    seed: bool
    images: bool
    schema: bool


class Model(Protocol):
    """A model. May be shared by threads. `name` says which, the same in every process: `openai:gpt-x`."""

    @property
    def name(self) -> str:
        """The backend and the model's name there."""
        ...

    @property
    def offers(self) -> Offers:
        """What may be asked of it."""
        ...

    def complete(self, request: CompletionRequest) -> Completion:
        """Draw answers. Raises ModelFailure, NotOffered where more is asked than is offered."""
        ...


def refuse_unoffered(name: str, offers: Offers, request: CompletionRequest) -> None:
    """Raise NotOffered where a request asks for what a model does not offer."""
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
