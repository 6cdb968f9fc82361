"""Policies with weights in this process: a base model, and its checkpoints, each loaded when a run needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..envs.contract import Instance
from ..learning.advice import Audience, reading_audience
from ..models.local.host import Host
from ..models.local.network import BASE
from ..models.model import Model
from .actions import Wording
from .errors import NotServed
from .executor import Assignment, Execution, Watch, no_verification
from .inspection import HttpInspector, Inspectors
from .policy import MAX_TOKENS, Opening, PolicyExecutor, can_inspect, name_over, over_http, wording_budget

BRIEF_TOKENS: Final = 128
"""Most tokens of an answer with brief wording. An action takes about fifty."""

FolderOf = Callable[[str], Path]
"""Returns the folder of a checkpoint by its digest. Raises FlywheelError if there is none."""


def no_checkpoints(weights: str) -> Path:
    """A FolderOf without checkpoints. Raises NotServed."""
    raise NotServed(actual=weights, expected=BASE)


@dataclass(frozen=True, slots=True)
class LocalPolicies:
    """Executor of a base model and its checkpoints. Concurrent runs share its batches."""

    host: Host
    folder_of: FolderOf = no_checkpoints
    opening: Opening = over_http
    wording: Wording = "full"
    inspect: Inspectors | None = None

    @property
    def name(self) -> str:
        """See Executor."""
        return name_over(self.opening)

    @property
    def model(self) -> Model:
        """The base model. Plans are recorded under its name; a run's artifact names the checkpoint."""
        return self.host.base()

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return self.host.offers.logprobs

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
        """The policy of these weights: `base`, or the digest of a checkpoint, which is loaded at the first call.

        Raises NotServed, AdapterUnfit, CheckpointMissing, CheckpointAltered, DrawingFailed.
        """
        model = self.host.loaded_model(weights) or self.host.adapted_model(weights, self.folder_of)
        tokens = BRIEF_TOKENS if self.wording == "brief" else MAX_TOKENS
        return PolicyExecutor(model, opening=self.opening, max_tokens=tokens, wording=self.wording)
