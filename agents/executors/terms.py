"""An executor under the terms of one run: its largest cost, headers of its pages, and answers of former attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from eventlog.events import Usage
from projections.costs import PriceBook

from ..envs.contract import Instance
from ..learning.advice import Audience
from ..models.errors import UsageUnknown
from ..models.kept_answers import AnswerLog, RememberingModel
from ..models.model import Completion, CompletionRequest, Model, Offers
from ..rewards.value import cost_of
from . import policy
from .by_weights import Serves
from .executor import (
    Advised,
    Assignment,
    CostReached,
    ExecutedStep,
    Execution,
    Executor,
    Verified,
    Watch,
    no_verification,
)
from .policy import PolicyExecutor


@dataclass(frozen=True, slots=True)
class RunTerms:
    """Terms of a run. `most` is its largest cost in micro-dollars by the prices of `book` (None: any).

    `stopwatch` returns monotonic microseconds. `log` has the answers of former attempts (None: nothing is kept).
    """

    book: PriceBook
    stopwatch: Callable[[], int]
    most: int | None = None
    page_headers: Mapping[str, str] = field(default_factory=dict)
    log: AnswerLog | None = None


@dataclass
class CostMeter:
    """Usage of one attempt at a run, and its cost at any time."""

    terms: RunTerms
    began: int
    actions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def count_answer(self, model: str, completion: Completion) -> None:
        """Count the tokens of an answer. Raises UsageUnknown if a limit is set and the model does not tell them."""
        if self.terms.most is None:
            return
        if completion.input_tokens is None or completion.output_tokens is None:
            raise UsageUnknown(model=model)
        self.input_tokens += completion.input_tokens
        self.output_tokens += completion.output_tokens

    def counting_watch(self, watch: Watch, *, raises: bool) -> Watch:
        """A Watch that counts steps. If it `raises`, it ends a run that cost too much."""

        def count_step(taken: ExecutedStep) -> Verified | None:
            self.actions += 1
            found = watch(taken)
            if raises:
                self.refuse_beyond()
            return found

        return count_step

    def refuse_beyond(self) -> None:
        """Raise CostReached if the cost so far is more than the limit."""
        if self.terms.most is not None and self.cost() > self.terms.most:
            raise CostReached

    def cost(self) -> int:
        """Cost so far in micro-dollars."""
        wall = self.terms.stopwatch() - self.began
        return (
            cost_of(
                Usage(
                    actions=self.actions,
                    wall_microseconds=wall,
                    input_tokens=self.input_tokens,
                    output_tokens=self.output_tokens,
                ),
                self.terms.book,
            )
            or 0
        )


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """A model whose answers a meter counts."""

    model: Model
    meter: CostMeter

    @property
    def name(self) -> str:
        """See Model."""
        return self.model.name

    @property
    def offers(self) -> Offers:
        """See Model."""
        return self.model.offers

    def complete(self, request: CompletionRequest) -> Completion:
        """See Model.complete. Raises UsageUnknown, and CostReached from the second request on."""
        if self.meter.input_tokens:  # the first answer is always asked for
            self.meter.refuse_beyond()
        completion = self.model.complete(request)
        self.meter.count_answer(self.name, completion)
        return completion


@dataclass(frozen=True)
class TermedExecutor:
    """Executor of one run under its terms."""

    executor: Executor
    terms: RunTerms

    @property
    def name(self) -> str:
        """See Executor."""
        return self.executor.name

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return self.executor.offers_logprobs

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. A run that costs more than it may ends out of budget."""
        terms = self.terms
        meter = CostMeter(terms, terms.stopwatch())
        headers = {**assignment.page_headers, **terms.page_headers}
        acting = self._acting_executor(assignment.weights, meter)
        counting = meter.counting_watch(watch, raises=not isinstance(acting, PolicyExecutor))
        return acting.execute(replace(assignment, page_headers=headers), instance, counting)

    def _acting_executor(self, weights: str, meter: CostMeter) -> Executor:
        acting = self.executor
        if acting.name == policy.NAME and isinstance(acting, Serves):
            acting = acting.policy_for(weights)
        if not isinstance(acting, PolicyExecutor):
            return acting
        log = self.terms.log
        model = acting.model if log is None else RememberingModel(acting.model, log)
        return replace(acting, model=MeteredModel(model, meter))


@dataclass(frozen=True)
class TermedPolicy(TermedExecutor):
    """A policy under the terms of a run, which is told memory like the policy itself."""

    audience: Audience
    walks_pages: bool


def under_terms(executor: Executor, terms: RunTerms) -> Executor:
    """The executor of one run under its terms."""
    if isinstance(executor, Advised):
        return TermedPolicy(executor, terms, executor.audience, executor.walks_pages)
    return TermedExecutor(executor, terms)
