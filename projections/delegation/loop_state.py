"""The state of a delegation loop, as its fold keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from eventlog import events

from ..engine.projection import FoldState

if TYPE_CHECKING:
    from eventlog.events import LoopConfig


LOOP_MARK = ".loop"
"""Text between a run's name and the loop's number in the name of a loop that plays it."""

LOOP_STEM = 150
"""Characters of a run's name that the name of its loop begins with."""


class Delegated(Struct, frozen=True, kw_only=True):
    """A finished delegation: mean confidence in millionths, findings as a line, critiques after repair.

    `judged` is the mean over the workers of which anything says how sure they are; None if nothing says so of any.
    `least` is the lowest confidence of a worker, `weakest` that worker. `defects` are the categories that critiques
    found and did not only note, `critical` those of critical ones, and `planned` how much of the plan was done by then,
    in millionths (None without a plan).
    """

    iteration: int
    confidence: int
    findings: str = ""
    critiques: tuple[int, ...] = ()
    judged: int | None = None
    least: int = 1_000_000
    weakest: str = ""
    defects: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()
    planned: int | None = None


class WorkerResult(Struct, frozen=True, kw_only=True):
    """The result that a worker returned: `result` is the address of its content."""

    worker: str
    iteration: int
    status: str
    confidence: int
    finding: str
    result: str
    critique: int | None = None
    source: str = "reported"
    defects: tuple[dict[str, str], ...] = ()
    critique_tokens: int = 0


class SubtaskState(Struct, frozen=True, kw_only=True):
    """A subtask of the plan. `tries` counts the iterations in which a worker had it."""

    subtask: str
    description: str
    dependencies: tuple[str, ...] = ()
    success_criteria: str = ""
    status: str = "pending"
    tries: int = 0


class HypothesisState(Struct, frozen=True, kw_only=True):
    """A hypothesis: untested, confirmed or refuted."""

    hypothesis: str
    cause: str
    test: str = ""
    status: str = "untested"


class Decided(Struct, frozen=True, kw_only=True):
    """A decision of the manager, and the confidences that came of it."""

    iteration: int
    kind: str
    rationale: str = ""
    confidences: tuple[int, ...] = ()
    refusal: str = ""


class LoopState(FoldState, frozen=True, kw_only=True):
    """A delegation loop. `status` is open, waiting (for an answer) or how it ended.

    `running` are the workers of the last decision that have not returned; `returned` those that have, until the stall
    detector judged the iteration. `answer` is the address of the manager's last answer, `deferred` how many of its
    delegations did not run. `rejected` counts all rejections, `critique_tokens` what critiques and repairs of earlier
    iterations cost.
    """

    loop: str = ""
    task: str = ""
    task_line: str = ""
    manager: str = ""
    worker: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    parent: str | None = None
    root: str = ""
    depth: int = 0
    graded: bool = False
    grader: str | None = None
    validator: str | None = None
    commands_known: bool = True
    prompts: str | None = None
    refines: str | None = None
    sandbox: str = "none"
    offered_skills: tuple[dict[str, str], ...] = ()
    offered_tools: tuple[dict[str, str], ...] = ()
    status: str = ""
    reason: str = ""
    confidence: int = 0
    result: str | None = None
    iteration: int = 0
    answer: str = ""
    history: tuple[Delegated, ...] = ()
    decisions: tuple[Decided, ...] = ()
    invalid: int = 0
    deferred: int = 0
    running: tuple[str, ...] = ()
    returned: tuple[WorkerResult, ...] = ()
    latest: dict[str, WorkerResult] = field(default_factory=dict)
    plan: tuple[SubtaskState, ...] = ()
    hypotheses: tuple[HypothesisState, ...] = ()
    rejections: tuple[str, ...] = ()
    rejected: int = 0
    critique_tokens: int = 0
    feedback: str = ""
    strategy: str | None = None
    question: str | None = None
    answered: str | None = None
    signatures: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    opened_at: int = 0
    since: int = 0

    @property
    def is_open(self) -> bool:
        """True if the loop can go on, at once or after an answer."""
        return self.status in {"open", "waiting"}

    def loop_config(self) -> LoopConfig:
        """The configuration of the loop."""
        return events.LoopConfig.model_validate(self.config, strict=False)
