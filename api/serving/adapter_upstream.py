"""A vLLM server that loads adapters, behind the proxy: the champion and artifacts by name, each by its own weights."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError

from agents.executors.local import no_checkpoints
from agents.models.local.network import BASE
from agents.models.servers.vllm import VllmServer
from eventlog.errors import FlywheelError

from ..house import House
from ..queries.champion import show_champion
from ..settings import Settings
from ..sweeps.models import weights_endpoint
from ..training.weights import folders_of
from .dialects import Api, CallDialect
from .errors import UpstreamAnswered, UpstreamLost
from .local_upstream import CHAMPION
from .named_models import NamedModels
from .upstream import LOCAL, AnyUpstream, StreamEvent, Upstream, open_upstream

_THREADS: Final = 64
"""Calls that may wait at once for an adapter to be loaded."""


class WeightNames(Protocol):
    """Names of models, each of which stands for some weights."""

    def list_names(self) -> tuple[str, ...]:
        """The names. May read the log."""
        ...

    def weights_of(self, name: str) -> str:
        """The weights that a name stands for. May read the log. Raises UnknownModel."""
        ...


@dataclass(frozen=True, slots=True)
class EndpointNames:
    """Names at an endpoint: the model that it serves, which is the base, the champion, and artifacts on that base."""

    model: str
    artifacts: NamedModels

    def list_names(self) -> tuple[str, ...]:
        """See WeightNames."""
        return (self.model, CHAMPION, *self.artifacts.list_names())

    def weights_of(self, name: str) -> str:
        """See WeightNames. Raises NoChampion besides."""
        if name == self.model:
            return BASE
        if name != CHAMPION:
            return self.artifacts.weights_of(name)
        views = self.artifacts.house.views()
        return self.artifacts.served_weights(views, show_champion(views).champion.pointed_artifact().weights, name)


@dataclass(frozen=True)
class AdapterUpstream:
    """The endpoint of FLYWHEEL_MODEL_BASE. See AnyUpstream. If it `hides_weights`, answers name the model as asked.

    Weights are loaded there at their first use, once their digest is checked, and again where the server was restarted.
    """

    upstream: Upstream
    server: VllmServer
    names: WeightNames
    hides_weights: bool = False
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_THREADS))

    @property
    def api(self) -> Api:
        """See AnyUpstream."""
        return self.upstream.api

    @property
    def url(self) -> str:
        """See AnyUpstream."""
        return self.upstream.url

    @property
    def model(self) -> str:
        """See AnyUpstream."""
        return self.upstream.model

    def speaks(self, api: Api) -> bool:
        """See AnyUpstream."""
        return self.upstream.speaks(api)

    def list_models(self) -> tuple[str, ...]:
        """See AnyUpstream."""
        return self.names.list_names()

    def weights_of(self, model: str) -> str:
        """See AnyUpstream."""
        return self.names.weights_of(model)

    async def ask(self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """See Upstream.ask. Raises UnknownModel besides."""
        async with self._hold_weights(str(body["model"])) as weights:
            sent = {**body, "model": self.server.served_name(weights)}
            try:
                found = await self.upstream.ask(dialect, sent, headers)
            except UpstreamAnswered as problem:
                await self._load_again(weights, problem)
                found = await self.upstream.ask(dialect, sent, headers)
        return {**found, "model": body["model"]} if self.hides_weights else found

    @asynccontextmanager
    async def stream(
        self, dialect: CallDialect, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """See Upstream.stream. Raises UnknownModel besides."""
        asked = str(body["model"])
        async with self._hold_weights(asked) as weights, AsyncExitStack() as stack:
            served = self.server.served_name(weights)
            sent = {**body, "model": served}
            try:
                events = await stack.enter_async_context(self.upstream.stream(dialect, sent, headers))
            except UpstreamAnswered as problem:
                await self._load_again(weights, problem)
                events = await stack.enter_async_context(self.upstream.stream(dialect, sent, headers))
            yield _rename_events(events, served, asked) if self.hides_weights else events

    async def aclose(self) -> None:
        """Close the connections of calls; whoever opened the server of adapters closes it."""
        await self.upstream.aclose()

    @asynccontextmanager
    async def _hold_weights(self, model: str) -> AsyncIterator[str]:
        """The weights of a name, which stay loaded until the block ends. Raises UnknownModel, UpstreamLost."""
        weights = await to_thread.run_sync(self.names.weights_of, model)
        if weights == BASE:
            yield weights
            return
        holding = self.server.hold(weights)
        await to_thread.run_sync(self._load, holding.__enter__, limiter=self.threads)
        try:
            yield weights
        finally:
            holding.__exit__(None, None, None)

    def _load(self, load: Callable[[], object]) -> None:
        """Whatever keeps weights from being loaded is no fault of the caller. Raises UpstreamLost."""
        try:
            load()
        except (FlywheelError, SQLAlchemyError, OSError) as problem:
            raise UpstreamLost(url=self.url, actual=str(problem)) from problem

    async def _load_again(self, weights: str, problem: UpstreamAnswered) -> None:
        """Have a server that does not know an adapter load it. Raises the problem where that is not the reason."""
        if weights == BASE or problem.facts["actual"] != HTTPStatus.NOT_FOUND:
            raise problem
        again = partial(self.server.load_again, weights)
        await to_thread.run_sync(self._load, again)  # those who wait for room have the other threads


async def _rename_events(events: AsyncIterator[StreamEvent], served: str, asked: str) -> AsyncIterator[StreamEvent]:
    """The events with the model's field as it was asked; in a text of the answer its quotation marks are escaped."""
    field, told = re.compile(rf'"model"\s*:\s*"{re.escape(served)}"'), f'"model":{json.dumps(asked)}'
    async for event in events:
        raw = field.sub(lambda _: told, event.raw.decode("utf-8", "surrogateescape"))
        yield replace(event, raw=raw.encode("utf-8", "surrogateescape"), data=field.sub(lambda _: told, event.data))


@contextmanager
def proxied_upstream(house: House) -> Iterator[AnyUpstream | None]:
    """What the proxy forwards to: the endpoint of the settings, by weights if it is said to load them; None: none.

    Raises BadEndpoint.
    """
    settings, upstream = house.settings, open_upstream(house.settings)
    if upstream is None or settings.model_base is None:
        yield upstream
        return
    with weights_endpoint(settings, None, folders_of(house)) as server:
        names = EndpointNames(upstream.model, NamedModels(house, settings.model_base, server.model_of))
        yield AdapterUpstream(upstream, server, names)


def refuse_bad_endpoint(settings: Settings) -> None:
    """Raise BadEndpoint where `proxied_upstream` would: before a server listens."""
    if settings.model is not None and settings.model_base is not None and not settings.model.startswith(LOCAL):
        with weights_endpoint(settings, None, no_checkpoints):
            pass
