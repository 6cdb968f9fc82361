"""A model of this process in the place of a model server: chats of both dialects."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from anyio import CapacityLimiter, to_thread

from agents.models.errors import ModelFailure, NotOffered, RequestRejected
from agents.models.model import ChatMessage, Completion, CompletionRequest, Model, Role, Sample
from eventlog.errors import WeightsFailure

from .calls import message_list, sampling_of
from .deployments import Deployment
from .dialects import CHAT, MESSAGES, Api, CallDialect
from .errors import BadCall, UpstreamAnswered, UpstreamLost
from .local_messages import message_answer, message_parts, read_messages_request
from .named_models import NamedModels
from .openai_calls import DONE
from .plain_texts import refuse_beyond_text, texts_of, with_seed
from .upstream import StreamEvent

CHAMPION: Final = "champion"
"""The model's name for callers, whoever is champion."""
MOST_TOKENS: Final = 512
"""Tokens of an answer whose caller gives no bound."""
THREADS: Final = 64
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


@dataclass(frozen=True, slots=True)
class LocalChampion:
    """A deployment in this process, with what completions say of its tokens, and whether it gives logprobs.

    `artifacts` are the other ones that can be called by name.
    """

    deployment: Deployment
    tokens: Mapping[str, str]
    has_logprobs: bool
    artifacts: NamedModels


class ModelsByName(Protocol):
    """Models of this process that can be called by name."""

    def list_names(self) -> tuple[str, ...]:
        """The names."""
        ...

    def weights_of(self, name: str) -> str:
        """The weights that a name stands for. Raises UnknownModel."""
        ...

    def take(self, name: str) -> AbstractContextManager[Model]:
        """The model of a name, for one call. Raises UnknownModel, ModelFailure, WeightsFailure."""
        ...


@dataclass(frozen=True, slots=True)
class DeployedModels:
    """The champion as it is deployed, and the artifacts that were."""

    deployment: Deployment
    artifacts: NamedModels

    def list_names(self) -> tuple[str, ...]:
        """See ModelsByName."""
        return (CHAMPION, *self.artifacts.list_names())

    def weights_of(self, name: str) -> str:
        """See ModelsByName."""
        return self.deployment.present.artifact.weights if name == CHAMPION else self.artifacts.weights_of(name)

    @contextmanager
    def take(self, name: str) -> Iterator[Model]:
        """See ModelsByName. Raises NothingDeployed besides."""
        if name != CHAMPION:
            yield self.artifacts.model_of(name)
            return
        with self.deployment.take() as deployed:
            yield deployed.model


@dataclass(frozen=True)
class LocalUpstream:
    """A model server in this process. See Upstream. If it `hides_weights`, answers name the model as it was asked."""

    models: ModelsByName
    has_logprobs: bool
    api: Api = "openai"
    model: str = CHAMPION
    hides_weights: bool = False
    url: str = "of this process"
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(THREADS))

    def speaks(self, api: Api) -> bool:
        """True: it answers in both dialects."""
        return api in {"openai", "anthropic"}

    def list_models(self) -> tuple[str, ...]:
        """See AnyUpstream."""
        return self.models.list_names()

    def weights_of(self, model: str) -> str:
        """See AnyUpstream."""
        return self.models.weights_of(model)

    async def ask(self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        """The whole answer to a call. Raises BadCall, UpstreamAnswered, UpstreamLost, NothingDeployed."""
        if dialect is CHAT:
            request = read_chat_request(body)
        elif dialect is MESSAGES:
            request = read_messages_request(body, wants_logprobs=self.has_logprobs)
        else:
            expected = f"{CHAT.path} or {MESSAGES.path}, which are what {self.model} answers"
            raise BadCall(where="path", actual=dialect.path, expected=expected)
        found = await to_thread.run_sync(self._complete, request, str(body["model"]), limiter=self.threads)
        return message_answer(found) if dialect is MESSAGES else chat_answer(found, body)

    @asynccontextmanager
    async def stream(
        self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The events of a streamed answer, which come together when it is whole. Raises as `ask`."""
        whole = await self.ask(dialect, body, headers)
        yield _message_events(message_parts(whole)) if dialect is MESSAGES else _events(stream_parts(whole))

    async def aclose(self) -> None:
        """Nothing is open."""

    def _complete(self, request: CompletionRequest, model: str) -> Completion:
        try:
            with self.models.take(model) as taken:
                found = taken.complete(request)
        except (NotOffered, RequestRejected) as problem:
            raise UpstreamAnswered(actual=400, said=str(problem), retry_after=None) from problem
        except (ModelFailure, WeightsFailure) as problem:
            raise UpstreamLost(url=self.url, actual=str(problem)) from problem
        return replace(found, model=model) if self.hides_weights else found


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
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": found.model,
        "choices": [_choice(place, sample, ids=ids) for place, sample in enumerate(found.samples)],
        "usage": {
            "prompt_tokens": found.input_tokens,
            "completion_tokens": found.output_tokens,
            "total_tokens": (found.input_tokens or 0) + (found.output_tokens or 0),
        },
        **({"prompt_token_ids": list(found.prompt_token_ids or ())} if ids else {}),
    }


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


def stream_parts(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A chat completion as the parts of a stream: the answer, its end, and the usage."""
    head = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    parts: list[dict[str, Any]] = []
    for choice in whole["choices"]:
        said = {key: value for key, value in choice.items() if key not in {"message", "finish_reason"}}
        delta = {"role": "assistant", "content": choice["message"]["content"]}
        parts.append({**head, "choices": [{**said, "delta": delta, "finish_reason": None}]})
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"], "logprobs": None}
        parts.append({**head, "choices": [end]})
    prompt = {"prompt_token_ids": whole["prompt_token_ids"]} if "prompt_token_ids" in whole else {}
    return [*parts, {**head, "choices": [], "usage": whole["usage"], **prompt}]


async def _message_events(parts: Iterable[Mapping[str, Any]]) -> AsyncIterator[StreamEvent]:
    for part in parts:
        data = json.dumps(part, ensure_ascii=False)
        yield StreamEvent(f"event: {part['type']}\ndata: {data}\n\n".encode(), data)


async def _events(parts: Iterable[Mapping[str, Any]]) -> AsyncIterator[StreamEvent]:
    for part in parts:
        data = json.dumps(part, ensure_ascii=False)
        yield StreamEvent(b"data: " + data.encode() + b"\n\n", data)
    yield StreamEvent(f"data: {DONE}\n\n".encode(), DONE)
