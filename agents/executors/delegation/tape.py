"""The tape of one run: every step that workers take on its instance and every model call, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eventlog.events import RunStatus

from ...models.model import Completion, CompletionRequest, Model, Offers
from ..executor import Called, ExecutedStep, Execution, Verified, Watch

if TYPE_CHECKING:
    from .workers import WorkDesk


@dataclass
class RunTape:
    """Steps and calls of a run. Its workers take turns, so one thread writes at a time. `watch` checks each step."""

    watch: Watch
    taken: list[ExecutedStep] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)

    def take(self, step: ExecutedStep) -> None:
        """Record a step, numbered through the run, and check it."""
        numbered = replace(step, index=len(self.taken))
        self.taken.append(numbered)
        if (found := self.watch(numbered)) is not None:
            self.verified.append(found)

    def call(self, request: CompletionRequest, complete: Callable[[CompletionRequest], Completion]) -> Completion:
        """Have a model answer, and record the call for the step that comes next."""
        completion = complete(request)
        self.called.append(Called("policy", len(self.taken), request, completion))
        return completion

    def execution(self, status: RunStatus) -> Execution:
        """The run as an execution."""
        return Execution(tuple(self.taken), status, tuple(self.called), tuple(self.verified))


@dataclass(frozen=True, slots=True)
class TapedModel:
    """A manager's model whose calls are recorded as decisions of the run, with logprobs if it offers them."""

    model: Model
    tape: RunTape

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self.model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete."""
        sampling = request.sampling.model_copy(update={"wants_logprobs": self.offers.logprobs})
        return self.tape.call(replace(request, sampling=sampling), self.model.complete)


@dataclass(frozen=True, slots=True)
class DeskModel:
    """A worker's model whose calls are recorded, and charged to the worker's desk."""

    model: Model
    tape: RunTape
    desk: WorkDesk

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self.model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Raises WorkerOverBudget."""
        return self.tape.call(request, lambda asked: self.desk.complete(self.model, asked))
