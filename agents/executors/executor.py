"""Interface of executors: an assignment and a fresh instance in, the executed steps out.

An executor does not judge success: the oracle does. An environment that does not answer is an error, not an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol, runtime_checkable

from eventlog.blobs import Blob
from eventlog.events import CheckName, ModelCalled, ModelRole, RunStatus, Step, StepOutcome

from ..envs.contract import Instance
from ..learning.advice import Audience
from ..learning.step_checks import Checked
from ..models.model import Completion, CompletionRequest
from ..plans import Plan
from .errors import NoLogprobs
from .site_record import SiteRecord

LACKS: Final[frozenset[StepOutcome]] = frozenset({"no_such_link", "no_such_field", "no_such_option"})
"""Outcomes of a step whose control is missing on the page."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task to execute in an instance. A plan walker needs the plan, a policy the instruction.

    `seed` and `temperature_micro` are sampling parameters of a model. `page_headers` are sent with every page request.
    `profile` is the browser state of a session (cookies, the last address) as bytes; None starts fresh. `weights` are
    those of the run's artifact. `advice` holds lines for a policy about what helped before, `guidance` the instruction
    that memory holds for tasks like this one, `skills` whole skills for the workers of a delegation loop. `run` is the
    run's id, `environment` and `task` name what is played and graded; `is_sealed` says that its result may not be told.
    """

    instruction: str
    plan: Plan
    max_steps: int
    seed: int = 0
    temperature_micro: int = 0
    profile: bytes | None = None
    page_headers: Mapping[str, str] = field(default_factory=dict)
    weights: str = "base"
    advice: tuple[str, ...] = ()
    guidance: str = ""
    run: str = ""
    skills: tuple[str, ...] = ()
    environment: str = ""
    task: str = ""
    is_sealed: bool = False


@dataclass(frozen=True, slots=True)
class ExecutedStep:
    """An executed step: its outcome, and the status, text and screenshot (PNG) of the page it led to."""

    index: int
    step: Step
    outcome: StepOutcome
    http_status: int | None
    text: str | None
    screenshot: bytes | None = None

    @property
    def is_failed(self) -> bool:
        """True if the step failed. An optional step whose control is missing did not fail."""
        return self.outcome != "ok" and not (self.step.optional and self.outcome in LACKS)


@dataclass(frozen=True, slots=True)
class Called:
    """A model call, and the step it was made for (None: before the first)."""

    role: ModelRole
    step: int | None
    request: CompletionRequest
    completion: Completion

    @property
    def input_tokens(self) -> int | None:
        """Tokens of the request; None if unknown."""
        return self.completion.input_tokens

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the answer; None if unknown."""
        return self.completion.output_tokens


@dataclass(frozen=True, slots=True)
class PassedOn:
    """A model call that an agent made by itself through an endpoint of ours, as it is recorded, but for its place."""

    step: int | None
    event: ModelCalled
    blobs: tuple[Blob, ...]

    @property
    def input_tokens(self) -> int | None:
        """Tokens of the request; None if unknown."""
        return self.event.input_tokens

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the answer; None if unknown."""
        return self.event.output_tokens


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of checking a step right after it was executed."""

    index: int
    check: CheckName
    checked: Checked

    @property
    def model_calls(self) -> tuple[Called, ...]:
        """The verifier's model call; empty if no model was asked."""
        exchange = self.checked.exchange
        return () if exchange is None else (Called("verifier", self.index, exchange.request, exchange.completion),)


@dataclass(frozen=True, slots=True)
class Execution:
    """Result of an assignment. `profile` is the browser state for the session's next assignment.

    `is_reported` is True if nobody saw the steps but the agent that reports them: they earn nothing and cost nothing.
    `passed_on` are the calls that such an agent made through our endpoint, and `site` is what its site told it, if
    that was recorded.
    """

    taken: tuple[ExecutedStep, ...]
    status: RunStatus
    called: tuple[Called, ...] = ()
    verified: tuple[Verified, ...] = ()
    profile: bytes | None = None
    is_reported: bool = False
    passed_on: tuple[PassedOn, ...] = ()
    site: SiteRecord | None = None

    @property
    def model_calls(self) -> tuple[Called | PassedOn, ...]:
        """Every model call of the run itself, without those of step checks."""
        return (*self.called, *self.passed_on)

    @property
    def failed_step(self) -> ExecutedStep | None:
        """The last step if it failed, else None."""
        return self.taken[-1] if self.taken and self.taken[-1].is_failed else None


Watch = Callable[[ExecutedStep], Verified | None]
"""Called with each step right after its execution; may return a check of the step's effect. CostReached ends a walk."""


class CostReached(Exception):
    """A run has cost more than it may: it ends out of budget, and is graded as it stands.

    The Watch of a walked plan raises it, and the model of a policy.
    """


def no_verification(_taken: ExecutedStep) -> Verified | None:
    """A Watch that checks nothing."""
    return None


class Executor(Protocol):
    """A way of doing a task. Thread-safe: calls are isolated from each other."""

    @property
    def name(self) -> str:
        """Name recorded in RunStarted."""
        ...

    @property
    def offers_logprobs(self) -> bool:
        """True if its runs can be trained on, because they record token ids with their logprobs."""
        ...

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """Execute an assignment. Raises EnvironmentFailure, and ModelFailure if a policy's model does not answer."""
        ...


@runtime_checkable
class Advised(Protocol):
    """An executor that is told pieces of memory in words, instead of applying them to a plan."""

    @property
    def audience(self) -> Audience:
        """Most of memory that its models are told with one task."""
        ...

    @property
    def walks_pages(self) -> bool:
        """True if its steps are steps of pages, which recovery can take again."""
        ...


def refuse_without_logprobs(executor: Executor) -> None:
    """Raise NoLogprobs if an executor offers no logprobs, which runs for GRPO need."""
    if not executor.offers_logprobs:
        raise NoLogprobs(actual=executor.name)


def outcome_of(status: int) -> StepOutcome:
    """Outcome of a step that led to a page with this status."""
    if status < HTTPStatus.BAD_REQUEST:
        return "ok"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "forbidden"
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return "invalid_form"
    return "not_found" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
