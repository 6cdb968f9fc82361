"""One policy for each weights: a run is executed by the model that serves the weights of its artifact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eventlog.events import Artifact

from ..envs.contract import Instance
from . import policy
from .errors import NotServed
from .executor import Assignment, Execution, Executor, Watch, no_verification
from .policy import PolicyExecutor


@runtime_checkable
class Serves(Protocol):
    """An executor that has a policy for each weights it serves."""

    def policy_for(self, weights: str) -> PolicyExecutor:
        """The policy of these weights, loaded. Raises NotServed, ModelFailure."""
        ...


@runtime_checkable
class Loads(Protocol):
    """An executor whose model it does not call itself, but has loaded."""

    @property
    def load(self) -> Callable[[str], None]:
        """Loads weights: `any_weights` if it has no model. Raises NotServed, WeightsFailure."""
        ...


def any_weights(_weights: str) -> None:
    """Load nothing: the agent's model is elsewhere, or it has none, and no weights are refused."""


@dataclass(frozen=True, slots=True)
class ByWeights:
    """Executor of checkpoints. `policies` is keyed by the weights that each model serves: `base` or a digest."""

    policies: Mapping[str, PolicyExecutor]
    name: str = policy.NAME

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return all(each.offers_logprobs for each in self.policies.values())

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. Raises NotServed."""
        return self.policy_for(assignment.weights).execute(assignment, instance, watch)

    def policy_for(self, weights: str) -> PolicyExecutor:
        """The policy of these weights. Raises NotServed."""
        if weights not in self.policies:
            raise NotServed(actual=weights, expected=", ".join(sorted(self.policies)) or "none")
        return self.policies[weights]


def plays_weights(executor: Executor) -> bool:
    """True if a run's weights decide what the executor does: it serves them, or has them loaded."""
    return isinstance(executor, Serves) or (isinstance(executor, Loads) and executor.load is not any_weights)


def refuse_unserved(executor: Executor, artifacts: Iterable[Artifact]) -> None:
    """Raise NotServed if no model serves the weights of one of these artifacts. Call it before any run.

    An executor that loads weights on demand loads them now. Raises ModelFailure if they cannot be loaded.
    """
    for artifact in artifacts:
        if isinstance(executor, Serves):
            executor.policy_for(artifact.weights)
        elif isinstance(executor, Loads):
            executor.load(artifact.weights)
