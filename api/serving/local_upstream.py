"""A model of this process in the place of a model server: chats of both dialects, and completions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from anyio import CapacityLimiter, to_thread

from agents.models.drawn_texts import Continuing, TextRequest, Watchable, Watcher
from agents.models.errors import ModelFailure, NotOffered, RequestRejected
from agents.models.model import Completion, CompletionRequest, Model
from eventlog.errors import WeightsFailure

from .deployments import Deployment
from .dialects import CHAT, COMPLETIONS, MESSAGES, Api, CallDialect
from .drawn_stream import DrawnStream
from .errors import UpstreamAnswered, UpstreamLost
from .local_chats import chat_answer, chat_stream, read_chat_request
from .local_messages import message_answer, message_stream, read_messages_request
from .local_texts import read_text_request, text_answer, text_stream
from .named_models import NamedModels
from .openai_calls import DONE
from .upstream import StreamEvent

CHAMPION: Final = "champion"
"""The model's name for callers, whoever is champion."""
THREADS: Final = 64


@dataclass(frozen=True, slots=True)
class LocalChampion:
    """A deployment in this process, with what completions say of its tokens, and whether it gives logprobs.

    `artifacts` are the other ones that can be called by name.
    """

    deployment: Deployment
    tokens: Mapping[str, str]
    has_logprobs: bool
    artifacts: NamedModels


@dataclass(frozen=True, slots=True)
class _LocalDialect:
    """How a call is read (with logprobs where the model has them and the API has no field), and how it is answered."""

    read: Callable[[Mapping[str, Any], bool], CompletionRequest | TextRequest]
    answer: Callable[[Completion, Mapping[str, Any]], dict[str, Any]]
    stream: Callable[
        [DrawnStream, asyncio.Future[Completion], str, Mapping[str, Any]], AsyncIterator[Mapping[str, Any]]
    ]


_DIALECTS: Final[Mapping[str, _LocalDialect]] = {
    CHAT.path: _LocalDialect(lambda body, _: read_chat_request(body), chat_answer, chat_stream),
    COMPLETIONS.path: _LocalDialect(lambda body, _: read_text_request(body), text_answer, text_stream),
    MESSAGES.path: _LocalDialect(
        lambda body, has_logprobs: read_messages_request(body, wants_logprobs=has_logprobs),
        lambda found, _: message_answer(found),
        lambda drawn, drawing, name, _: message_stream(drawn, drawing, name),
    ),
}


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
        request, model = self._read(dialect, body), str(body["model"])
        found = await to_thread.run_sync(self._complete, request, model, limiter=self.threads)
        return _DIALECTS[dialect.path].answer(found, body)

    @asynccontextmanager
    async def stream(
        self,
        dialect: CallDialect,
        body: Mapping[str, Any],
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The events of a streamed answer as it is drawn. Raises as `ask`; later failures are raised by the events.

        A caller that leaves the block ends the drawing at the next token.
        """
        request, model, drawn = self._read(dialect, body), str(body["model"]), DrawnStream()
        drawing = asyncio.ensure_future(to_thread.run_sync(self._complete, request, model, drawn, limiter=self.threads))
        drawn.follow(drawing)
        try:
            await drawn.wait_for_begin()
            if drawn.model is None:  # it failed, or was whole before anything was told
                found = await drawing
                drawn.model, drawn.input_tokens = found.model, found.input_tokens or 0
            name = model if self.hides_weights else drawn.model
            yield _events(dialect, _DIALECTS[dialect.path].stream(drawn, drawing, name, body))
        finally:
            drawn.has_left = True

    async def aclose(self) -> None:
        """Nothing is open."""

    def _read(self, dialect: CallDialect, body: Mapping[str, Any]) -> CompletionRequest | TextRequest:
        return _DIALECTS[dialect.path].read(body, self.has_logprobs)

    def _complete(
        self, request: CompletionRequest | TextRequest, model: str, watcher: DrawnStream | None = None
    ) -> Completion:
        if watcher is not None and watcher.has_left:  # while it waited for a thread
            raise UpstreamLost(url=self.url, actual="its caller has left")
        try:
            with self.models.take(model) as taken:
                found = _draw(taken, request, watcher)
        except (NotOffered, RequestRejected) as problem:
            raise UpstreamAnswered(actual=400, said=str(problem), retry_after=None) from problem
        except (ModelFailure, WeightsFailure) as problem:
            raise UpstreamLost(url=self.url, actual=str(problem)) from problem
        return replace(found, model=model) if self.hides_weights else found


def _draw(model: Model, request: CompletionRequest | TextRequest, watcher: Watcher | None) -> Completion:
    if isinstance(request, TextRequest):
        if not isinstance(model, Continuing):
            raise NotOffered(model=model.name, actual="texts to continue")
        return model.continue_text(request, watcher)
    if watcher is not None and isinstance(model, Watchable):
        return model.complete_watched(request, watcher)
    return model.complete(request)


async def _events(dialect: CallDialect, parts: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[StreamEvent]:
    async for part in parts:
        data = json.dumps(part, ensure_ascii=False)
        named = f"event: {part['type']}\n" if dialect is MESSAGES else ""
        yield StreamEvent(f"{named}data: {data}\n\n".encode(), data)
    if dialect is not MESSAGES:
        yield StreamEvent(f"data: {DONE}\n\n".encode(), DONE)
