"""What answers the model calls of agents that Flywheel plays: a model server, or in this process the run's weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from agents.executors.errors import NotServed
from agents.executors.local import FolderOf, LocalPolicies, no_checkpoints
from agents.models.local.network import BASE
from agents.models.model import Model
from agents.models.servers.vllm import VllmServer

from ..settings import Settings
from ..sweeps.models import local_folder, local_host, weights_endpoint
from .adapter_upstream import AdapterUpstream
from .call_terms import CallTerms, configured_terms, local_terms
from .errors import UnknownModel
from .local_upstream import LocalUpstream
from .upstream import AnyUpstream, Upstream, open_upstream, served_tokens


class RunModels(Protocol):
    """What answers the calls of runs, each by the weights of its artifact as far as these are served here."""

    @property
    def name(self) -> str:
        """The model's name for agents, whatever weights answer."""
        ...

    @property
    def base(self) -> str | None:
        """Name of the base model in this process by which the log knows an agent before it; None if there is none."""
        ...

    @property
    def terms(self) -> CallTerms:
        """What is asked of it, and known of it."""
        ...

    @property
    def tokens(self) -> Mapping[str, str]:
        """Token facts that completions carry."""
        ...

    @property
    def offers_logprobs(self) -> bool:
        """True if every call is recorded with token ids and exact logprobs, whatever the agent asks."""
        ...

    def load(self, weights: str) -> None:
        """Have these weights in memory. Raises NotServed, WeightsFailure."""
        ...

    def upstream_for(self, weights: str) -> AnyUpstream:
        """What answers a run of these weights. Raises NotServed, WeightsFailure."""
        ...

    def recorded_as(self, weights: str) -> str | None:
        """The model's name in calls of a run; None: the name that the answer gives."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True)
class ServerModels:
    """The model server of the settings. Only with `server`, where it loads checkpoints, its weights are known here.

    Without, it answers runs of `base` alone, so that none is recorded as a run of a checkpoint.
    """

    settings: Settings
    upstream: Upstream
    terms: CallTerms
    server: VllmServer | None = None
    base: None = None
    offers_logprobs: bool = False

    @property
    def name(self) -> str:
        """See RunModels."""
        return self.upstream.model

    @property
    def tokens(self) -> Mapping[str, str]:
        """See RunModels."""
        return served_tokens(self.settings)

    def load(self, weights: str) -> None:
        """See RunModels. Raises ModelFailure besides."""
        if self.server is not None:
            self.server.model_of(weights)
        elif weights != BASE:
            raise NotServed(actual=weights, expected=BASE)

    def upstream_for(self, weights: str) -> AnyUpstream:
        """See RunModels. The agent is not told by which weights it is answered."""
        if self.server is None:
            self.load(weights)
            return self.upstream
        pinned = PinnedModel(self.name, weights, self.server.model_of(weights))
        return AdapterUpstream(self.upstream, self.server, pinned, hides_weights=True)

    def recorded_as(self, weights: str) -> str | None:
        """See RunModels."""
        return None if self.server is None else self.server.served_name(weights)

    async def aclose(self) -> None:
        """See RunModels."""
        await self.upstream.aclose()


@dataclass(frozen=True)
class LocalModels:
    """A base model in this process, and its checkpoints."""

    policies: LocalPolicies
    terms: CallTerms = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", local_terms(has_logprobs=self.offers_logprobs))

    @property
    def name(self) -> str:
        """See RunModels."""
        return self.policies.host.name

    @property
    def base(self) -> str:
        """See RunModels."""
        return self.policies.host.name

    @property
    def tokens(self) -> Mapping[str, str]:
        """See RunModels."""
        served = self.policies.host.served
        return {"tokenizer": served.tokenizer, "chat_template": served.chat_template}

    @property
    def offers_logprobs(self) -> bool:
        """See RunModels."""
        return self.policies.offers_logprobs

    def load(self, weights: str) -> None:
        """See RunModels."""
        self._model(weights)

    def upstream_for(self, weights: str) -> AnyUpstream:
        """See RunModels. The agent is not told by which weights it is answered."""
        pinned = PinnedModel(self.name, weights, self._model(weights))
        return LocalUpstream(pinned, self.offers_logprobs, model=self.name, hides_weights=True)

    def recorded_as(self, weights: str) -> str:
        """See RunModels."""
        return self._model(weights).name

    async def aclose(self) -> None:
        """See RunModels. Whoever opened the model closes it."""

    def _model(self, weights: str) -> Model:
        return self.policies.policy_for(weights).model


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """The one model of a run, under a name that does not tell its weights. See ModelsByName."""

    name: str
    weights: str
    model: Model

    def list_names(self) -> tuple[str, ...]:
        """The name."""
        return (self.name,)

    def weights_of(self, name: str) -> str:
        """The run's weights. Raises UnknownModel."""
        if name != self.name:
            raise UnknownModel(actual=name, expected=self.name)
        return self.weights

    def take(self, name: str) -> AbstractContextManager[Model]:
        """See ModelsByName."""
        self.weights_of(name)
        return nullcontext(self.model)


def run_models(
    settings: Settings, model: str | None = None, folder_of: FolderOf = no_checkpoints
) -> AbstractContextManager[RunModels] | None:
    """What answers for the `model`, else for that of the settings; None if none is named.

    A base model in this process, and an endpoint of FLYWHEEL_MODEL_BASE, have checkpoints from `folder_of`. Entering it
    raises what local_host raises, and BadEndpoint.
    """
    if local_folder(settings, model) is not None:
        return _local(settings, model, folder_of)
    upstream = open_upstream(settings)
    return None if upstream is None else _at_server(settings, upstream, folder_of)


@contextmanager
def _at_server(settings: Settings, upstream: Upstream, folder_of: FolderOf) -> Iterator[RunModels]:
    terms = configured_terms(settings)
    if settings.model_base is None:
        yield ServerModels(settings, upstream, terms)
        return
    with weights_endpoint(settings, None, folder_of) as server:
        yield ServerModels(settings, upstream, terms, server)


@contextmanager
def _local(settings: Settings, model: str | None, folder_of: FolderOf) -> Iterator[RunModels]:
    with local_host(settings, model, folder_of) as (host, files_of):
        yield LocalModels(LocalPolicies(host, files_of))
