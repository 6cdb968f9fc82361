"""The model server behind the proxy: forward a call, and read its stream event by event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

import httpx2

from agents.models.wire import LONGEST_SAID
from agents.tls import tls_context

from ..settings import Settings
from .dialects import Api, CallDialect
from .errors import NoUpstream, UnknownModel, UpstreamAnswered, UpstreamLost, UpstreamRefused

CONNECT_S: Final = 10.0
KEPT_S: Final = 2.0
"""How long an idle connection is kept: less than the 5 s after which uvicorn closes one, which would lose a call."""

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
    """The model server's address, model and pool of connections."""

    api: Api
    url: str
    model: str
    client: httpx2.AsyncClient

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
        await self.client.aclose()

    def headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of a caller that are passed on. Its key is not: the pool has the server's own."""
        kept = {name: given[name] for name in _PASSED if name in given}
        return {"anthropic-version": _VERSION, **kept} if self.api == "anthropic" else kept

    async def ask(self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """The whole answer to a call. Raises UpstreamRefused, UpstreamAnswered, UpstreamLost."""
        with _named(self.url):
            answer = await self.client.post(f"{self.url}/{dialect.path}", json=body, headers=self.headers(headers))
        _check(answer, self.url)
        try:
            found = answer.json()
        except ValueError as problem:
            raise UpstreamLost(url=self.url, actual="its answer is not JSON") from problem
        if not isinstance(found, dict):
            raise UpstreamLost(url=self.url, actual="its answer is no JSON object")
        return found

    @asynccontextmanager
    async def stream(
        self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The events of a streamed answer. Raises UpstreamRefused, UpstreamAnswered, UpstreamLost."""
        request = self.client.build_request(
            "POST", f"{self.url}/{dialect.path}", json=body, headers=self.headers(headers)
        )
        with _named(self.url):
            answer = await self.client.send(request, stream=True)
        try:
            if not answer.is_success:
                await answer.aread()
                _check(answer, self.url)
            yield _events(answer, self.url)
        finally:
            await answer.aclose()


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


class _named:  # noqa: N801  (a context manager, used as a function)
    """Names failures of the connection within the block: raises UpstreamLost."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if isinstance(problem, httpx2.HTTPError):
            said = f"{type(problem).__name__} {problem}".strip()
            raise UpstreamLost(url=self._url, actual=said) from problem


async def _events(answer: httpx2.Response, url: str) -> AsyncIterator[StreamEvent]:
    waiting = b""
    with _named(url):
        async for part in answer.aiter_bytes():
            waiting = (waiting + part).replace(b"\r\n", b"\n")
            while b"\n\n" in waiting:
                raw, waiting = waiting.split(b"\n\n", 1)
                yield StreamEvent(raw + b"\n\n", _data(raw))


def _data(raw: bytes) -> str:
    lines = raw.decode("utf-8", "replace").split("\n")
    return "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))


def _check(answer: httpx2.Response, url: str) -> None:
    if answer.is_success:
        return
    status = answer.status_code
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise UpstreamRefused(url=url, actual=status)
    raise UpstreamAnswered(actual=status, said=_server_message(answer), retry_after=answer.headers.get("retry-after"))


def _server_message(answer: httpx2.Response) -> str:
    """The server's own message, shortened; it never repeats a key, which only the pool holds."""
    try:
        error = json.loads(answer.content).get("error")
    except (ValueError, AttributeError, RecursionError):
        error = None
    message = error.get("message") if isinstance(error, dict) else error
    return (message if isinstance(message, str) else answer.text)[:LONGEST_SAID]


def open_upstream(settings: Settings) -> Upstream | None:
    """The model server that the settings name; None if they name none, or a model in the process."""
    if settings.model is None or settings.model.startswith(LOCAL):
        return None
    api: Api = settings.model_api
    key = "" if settings.model_key is None else settings.model_key.get_secret_value()
    named = {"x-api-key": key} if api == "anthropic" else {"Authorization": f"Bearer {key}"}
    client = httpx2.AsyncClient(
        headers=named if key else {},
        timeout=httpx2.Timeout(settings.model_seconds, connect=CONNECT_S),
        limits=httpx2.Limits(max_connections=512, max_keepalive_connections=64, keepalive_expiry=KEPT_S),
        trust_env=False,
        verify=tls_context(),
        follow_redirects=False,
    )
    return Upstream(api, (settings.model_url or _BASES[api]).rstrip("/"), settings.model, client)


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
