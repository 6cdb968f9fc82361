"""Policies by weights at an endpoint: a checkpoint is loaded into a running vLLM at its first use, by its digest."""

from __future__ import annotations

from dataclasses import dataclass

from ..envs.contract import Instance
from ..learning.advice import Audience, reading_audience
from ..models.local.network import BASE
from ..models.model import Model, WithoutLogprobs
from ..models.servers.vllm import VllmServer
from .actions import Wording
from .executor import Assignment, Execution, Watch, no_verification
from .inspection import HttpInspector, Inspectors
from .local import BRIEF_TOKENS
from .policy import MAX_TOKENS, Opening, PolicyExecutor, can_inspect, name_over, over_http, wording_budget


@dataclass(frozen=True, slots=True)
class EndpointPolicies:
    """Executor of a base at an endpoint and of checkpoints on it: digest to served name.

    A checkpoint's digest is checked before it is loaded; the least recently used idle one is unloaded beyond a bound.
    With `lacks_logprobs` none are requested, because the server returns none.
    """

    server: VllmServer
    opening: Opening = over_http
    wording: Wording = "full"
    lacks_logprobs: bool = False
    inspect: Inspectors | None = None

    @property
    def name(self) -> str:
        """See Executor."""
        return name_over(self.opening)

    @property
    def model(self) -> Model:
        """The base model. Plans are recorded under its name; a run's artifact names the checkpoint."""
        return self._model_of(BASE)

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return self.model.offers.logprobs

    @property
    def audience(self) -> Audience:
        """See Advised."""
        return reading_audience(wording_budget(self.wording))

    @property
    def walks_pages(self) -> bool:
        """See Advised."""
        return can_inspect(self.opening, self.inspect)

    def inspectors(self) -> Inspectors:
        """See Inspecting."""
        return self.inspect or HttpInspector

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. Raises what `policy_for` does."""
        return self.policy_for(assignment.weights).execute(assignment, instance, watch)

    def policy_for(self, weights: str) -> PolicyExecutor:
        """The policy of these weights: `base`, or the digest of a checkpoint, which is loaded if it is not.

        Raises AdapterUnfit, CheckpointMissing, CheckpointAltered, AdaptersFixed, ModelFailure.
        """
        tokens = BRIEF_TOKENS if self.wording == "brief" else MAX_TOKENS
        model = self._model_of(weights)
        return PolicyExecutor(model, opening=self.opening, max_tokens=tokens, wording=self.wording)

    def _model_of(self, weights: str) -> Model:
        model = self.server.model_of(weights)
        return WithoutLogprobs(model) if self.lacks_logprobs else model
