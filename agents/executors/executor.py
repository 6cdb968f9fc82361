"""What an executor is: an assignment and a fresh instance in, what happened step by step out.

It says nothing of success: that is the oracle's. An environment that does not answer is raised, never an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

from eventlog.events import CheckName, ModelRole, RunStatus, Step, StepOutcome

from ..envs.contract import Instance
from ..learning.step_checks import Checked
from ..models.model import Completion, CompletionRequest
from ..plans import Plan
from .errors import NoLogprobs

LACKS: Final[frozenset[StepOutcome]] = frozenset({"no_such_link", "no_such_field", "no_such_option"})
"""How a step ends whose control the page lacks."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be done in an instance. A plan walker needs the plan, a policy the instruction.

    `seed` and `temperature_micro` are what a model draws with. `page_headers` go on every call to the pages. `profile`
    is what a session's browser kept (cookies, the last address) as bytes; None starts fresh. `weights` are those of the
    artifact that the run is pinned to. `advice` are lines of what helped before, for a policy.
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


@dataclass(frozen=True, slots=True)
class ExecutedStep:
    """One step as it went: its outcome, the status of the page it led to, what that page said and looked like (PNG)."""

    index: int
    step: Step
    outcome: StepOutcome
    http_status: int | None
    text: str | None
    screenshot: bytes | None = None

    @property
    def is_failed(self) -> bool:
        """Whether it ended badly; an optional step that found nothing to act on did not."""
        return self.outcome != "ok" and not (self.step.optional and self.outcome in LACKS)


@dataclass(frozen=True, slots=True)
class Called:
    """One call of a model, and the step it was asked for (None: before the first)."""

    role: ModelRole
    step: int | None
    request: CompletionRequest
    completion: Completion


@dataclass(frozen=True, slots=True)
class Verified:
    """What was said of a step right after it."""

    index: int
    check: CheckName
    checked: Checked

    @property
    def model_calls(self) -> tuple[Called, ...]:
        """The verifier's own call, where a model was asked."""
        exchange = self.checked.exchange
        return () if exchange is None else (Called("verifier", self.index, exchange.request, exchange.completion),)


@dataclass(frozen=True, slots=True)
class Execution:
    """A whole assignment as it went. `profile` is what the browser keeps for the session's next call."""

    taken: tuple[ExecutedStep, ...]
    status: RunStatus
    called: tuple[Called, ...] = ()
    verified: tuple[Verified, ...] = ()
    profile: bytes | None = None

    @property
    def failed_step(self) -> ExecutedStep | None:
        """The last step, if it ended badly."""
        return self.taken[-1] if self.taken and self.taken[-1].is_failed else None


Watch = Callable[[ExecutedStep], Verified | None]
"""Who is told of each step right after it was taken, and may say whether it did what it was for."""


def no_verification(_taken: ExecutedStep) -> Verified | None:
    """Nobody looks."""
    return None


class Executor(Protocol):
    """A way of doing a task. May be shared by threads: each call is single-use and isolated."""

    @property
    def name(self) -> str:
        """What RunStarted says."""
        ...

    @property
    def offers_logprobs(self) -> bool:
        """Whether what it draws can be trained on: token ids with their logprobs."""
        ...

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """Do it. Raises EnvironmentFailure, and ModelFailure where the model of a policy does not answer."""
        ...


def refuse_without_logprobs(executor: Executor) -> None:
    """Raise NoLogprobs where what an executor draws cannot be trained on: for runs that are meant for GRPO."""
    if not executor.offers_logprobs:
        raise NoLogprobs(actual=executor.name)


def outcome_of(status: int) -> StepOutcome:
    """How a page's status reads to an agent."""
    if status < HTTPStatus.BAD_REQUEST:
        return "ok"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "forbidden"
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return "invalid_form"
    return "not_found" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
