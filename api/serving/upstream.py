"""The model server behind the proxy: forward a call, and read its stream event by event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from agents.models.wire import LONGEST_SAID

from ..settings import Settings
from .connections import Connections, lost_connections
from .dialects import Api, CallDialect
from .errors import NoUpstream, UnknownModel, UpstreamAnswered, UpstreamLost, UpstreamRefused

if TYPE_CHECKING:
    import aiohttp

_BASES: Final[Mapping[Api, str]] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}
_VERSION: Final = "2023-06-01"
_PASSED: Final = ("anthropic-version", "anthropic-beta", "openai-beta")
"""Headers of a caller that its model server has to see."""

LOCAL: Final = ("transformers:", "llamacpp:")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream: its bytes as they came, with the blank line that ends it, and its data."""

    raw: bytes
    data: str


@dataclass(frozen=True)
class Upstream:
    """The model server's address, model and connections."""

    api: Api
    url: str
    model: str
    connections: Connections

    def speaks(self, api: Api) -> bool:
        """True for the API of the settings."""
        return api == self.api

    def list_models(self) -> tuple[str, ...]:
        """The one model of the settings."""
        return (self.model,)

    def weights_of(self, model: str) -> str:
        """`base`: what weights an outside server has is not known here. Raises UnknownModel."""
        if model != self.model:
            raise UnknownModel(actual=model, expected=self.model)
        return "base"

    async def aclose(self) -> None:
        """Close the connections."""
        await self.connections.aclose()

    def headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of a caller that are passed on. Its key is not: the connections have the server's own."""
        kept = {name: given[name] for name in _PASSED if name in given}
        return {"anthropic-version": _VERSION, **kept} if self.api == "anthropic" else kept

    async def ask(self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """The whole answer to a call. Raises UpstreamRefused, UpstreamAnswered, UpstreamLost."""
        async with self.connections.post(f"{self.url}/{dialect.path}", body, self.headers(headers)) as answer:
            said = await _read(answer, self.url)
        try:
            found = json.loads(said)
        except (ValueError, RecursionError) as problem:
            raise UpstreamLost(url=self.url, actual="its answer is not JSON") from problem
        if not isinstance(found, dict):
            raise UpstreamLost(url=self.url, actual="its answer is no JSON object")
        return found

    @asynccontextmanager
    async def stream(
        self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The events of a streamed answer. Raises UpstreamRefused, UpstreamAnswered, UpstreamLost."""
        async with self.connections.post(f"{self.url}/{dialect.path}", body, self.headers(headers)) as answer:
            if not _is_success(answer):
                await _read(answer, self.url)
            yield _events(answer, self.url)


class AnyUpstream(Protocol):
    """Server of the proxy's calls: a model server, or a model in this process."""

    @property
    def api(self) -> Api:
        """The API that it speaks."""
        ...

    @property
    def url(self) -> str:
        """Its address, for messages."""
        ...

    @property
    def model(self) -> str:
        """The model's name for callers."""
        ...

    def speaks(self, api: Api) -> bool:
        """True if it answers calls of an API."""
        ...

    def list_models(self) -> tuple[str, ...]:
        """Names that callers may use. May read the log."""
        ...

    def weights_of(self, model: str) -> str:
        """The weights of a model by its name, as a run records them. May read the log. Raises UnknownModel."""
        ...

    async def ask(self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """See Upstream."""
        ...

    def stream(
        self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """See Upstream."""
        ...

    async def aclose(self) -> None:
        """Close what it holds open."""
        ...


async def _read(answer: aiohttp.ClientResponse, url: str) -> bytes:
    """The whole body of an answer. Raises UpstreamLost, and by its status UpstreamRefused, UpstreamAnswered."""
    with lost_connections(url):
        said = await answer.read()
    _check(answer, said, url)
    return said


async def _events(answer: aiohttp.ClientResponse, url: str) -> AsyncIterator[StreamEvent]:
    waiting = b""
    with lost_connections(url):
        async for part in answer.content.iter_any():
            waiting = (waiting + part).replace(b"\r\n", b"\n")
            while b"\n\n" in waiting:
                raw, waiting = waiting.split(b"\n\n", 1)
                yield StreamEvent(raw + b"\n\n", _data(raw))


def _data(raw: bytes) -> str:
    lines = raw.decode("utf-8", "replace").split("\n")
    return "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))


def _is_success(answer: aiohttp.ClientResponse) -> bool:
    return HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES


def _check(answer: aiohttp.ClientResponse, said: bytes, url: str) -> None:
    if _is_success(answer):
        return
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise UpstreamRefused(url=url, actual=answer.status)
    retry_after = answer.headers.get("retry-after")
    raise UpstreamAnswered(actual=answer.status, said=_server_message(said), retry_after=retry_after)


def _server_message(said: bytes) -> str:
    """The server's own message, shortened; it never repeats a key, which only the connections hold."""
    try:
        error = json.loads(said).get("error")
    except (ValueError, AttributeError, RecursionError):
        error = None
    message = error.get("message") if isinstance(error, dict) else error
    return (message if isinstance(message, str) else said.decode("utf-8", "replace"))[:LONGEST_SAID]


def open_upstream(settings: Settings) -> Upstream | None:
    """The model server that the settings name; None if they name none, or a model in the process."""
    if settings.model is None or settings.model.startswith(LOCAL):
        return None
    api: Api = settings.model_api
    key = "" if settings.model_key is None else settings.model_key.get_secret_value()
    named = {"x-api-key": key} if api == "anthropic" else {"Authorization": f"Bearer {key}"}
    connections = Connections(named if key else {}, settings.model_seconds)
    return Upstream(api, (settings.model_url or _BASES[api]).rstrip("/"), settings.model, connections)


def served_tokens(settings: Settings) -> dict[str, str]:
    """Token facts that completions carry, from the settings; empty unless both digests are set."""
    tokenizer, template = settings.model_tokenizer, settings.model_chat_template
    if tokenizer is None or template is None:
        return {}
    return {"tokenizer": tokenizer, "chat_template": template}


def check_upstream(upstream: AnyUpstream | None, dialect: CallDialect) -> AnyUpstream:
    """The model server if it speaks the dialect. Raises NoUpstream."""
    if upstream is None:
        raise NoUpstream(
            actual="FLYWHEEL_MODEL names no model server",
            expected="FLYWHEEL_MODEL and FLYWHEEL_MODEL_URL, or the option --model",
        )
    if not upstream.speaks(dialect.api):
        raise NoUpstream(
            actual=f"the model server speaks the API of {upstream.api}", expected=f"FLYWHEEL_MODEL_API={dialect.api}"
        )
    return upstream
