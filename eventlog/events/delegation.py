"""Delegation loops: decisions of a manager, results of workers, budget, stalls, tools, skills. One stream a loop."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Name, ScoreMicro
from .loop_config import LoopConfig, Strategy

DecidedKind = Literal["delegate", "complete", "plan", "diagnose", "fail", "invalid"]
"""A manager's decision; invalid: its answer was none, after a clarification too."""

LoopStatus = Literal["complete", "partial_complete", "failed", "aborted"]
SandboxKind = Literal["bubblewrap", "namespaces", "none"]
"""The fence around tools. none: tools are refused."""

_Line = Annotated[str, Field(max_length=1_000)]
_ToolName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39}){1,3}$")]
_SkillName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,60}$")]


class BudgetAmounts(FrozenModel):
    """Amounts in each dimension of a budget. `wall` is in microseconds."""

    loops: Count = 0
    workers: Count = 0
    tokens: Count = 0
    tool_calls: Count = 0
    wall: Count = 0


class OfferedSkill(FrozenModel):
    """A skill of an earlier run: its name, its line in the catalogue, its text."""

    skill: _SkillName
    line: _Line
    content: BlobAddress


class OfferedTool(FrozenModel):
    """A tool of an earlier run."""

    tool: _ToolName
    code_hash: Digest
    content: BlobAddress


class PlannedSubtask(FrozenModel):
    """A subtask of a plan, and those that must be completed before it."""

    subtask: Name
    description: _Line
    dependencies: tuple[Name, ...]
    success_criteria: _Line


class StatedHypothesis(FrozenModel):
    """A cause that a diagnostic worker is to test."""

    hypothesis: Name
    cause: _Line
    test: _Line


DefectCategory = Literal[
    "missing_data",
    "wrong_format",
    "incomplete",
    "hallucinated",
    "stale",
    "policy_violation",
    "placeholder",
    "unused_required_tool",
]
"""What may be wrong with a worker's result."""


class FoundDefect(FrozenModel):
    """A defect that a critique found in a result, and where."""

    category: DefectCategory
    location: _Line
    severity: Literal["critical", "warning", "info"]


class LoopOpened(Event):
    """A delegation loop began on a task. `root` is the first loop of its tree, `depth` its level below that.

    `grader` and `validator` are the commands that are its ground truth (None: none, or one without a command).
    `refines` is the ended loop whose result it improves on. Version 1 recorded none of these three, so
    `commands_known` is false and whether it had a validator is unknown; its completions passed no gate of evaluation,
    and all its namespaces had the same capabilities. `prompts` is the digest of the wording of all prompts; versions 1
    and 2 did not record it. Their critiques were by rules, no category of defects was counted, no diagnosis was
    suggested, and no file was judged.
    """

    schema_version: ClassVar[int] = 3
    type: Literal["LoopOpened"] = "LoopOpened"
    loop: Name
    task: BlobAddress
    task_line: _Line
    manager: Name
    worker: Name
    config: LoopConfig
    seed: Count
    parent: Name | None
    root: Name
    depth: Count
    graded: bool
    grader: _Line | None
    validator: _Line | None
    commands_known: bool
    refines: Name | None
    prompts: Digest | None
    sandbox: SandboxKind
    skills: tuple[OfferedSkill, ...]
    tools: tuple[OfferedTool, ...]


class IterationDecided(Event):
    """A manager decided. `prompt` and `answer` are what it was shown and what it said.

    `workers` run in this iteration, `deferred` is how many delegations did not fit. `refusal` says why a decision is
    not followed; empty if it is. `signature` tells a repeated delegation.
    """

    type: Literal["IterationDecided"] = "IterationDecided"
    loop: Name
    iteration: Count
    decision: DecidedKind
    reasoning: _Line
    confidence: ScoreMicro | None
    prompt: BlobAddress
    answer: BlobAddress
    clarified: bool
    workers: tuple[Name, ...]
    deferred: Count
    refusal: _Line
    signature: str
    subtasks: tuple[PlannedSubtask, ...]
    hypotheses: tuple[StatedHypothesis, ...]


class WorkerReturned(Event):
    """A worker's result. `confidence` is what counts, `reported` what the worker said of itself (null: nothing).

    `critique` is the score after repair, by `critic`, with what `defects` it still found; `critique_tokens` were spent
    on critique and repair. Version 1 was judged by rules and kept no defects. `tools` and `skills` were used. `refused`
    holds the category of each tool that was refused in the end. What the result makes of its subtask and hypothesis is
    null without one. `note` says why a worker was not what was asked for, such as a sub-manager.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["WorkerReturned"] = "WorkerReturned"
    loop: Name
    iteration: Count
    worker: Name
    subtask: str
    subtask_status: Literal["completed", "failed"] | None
    hypothesis: str
    hypothesis_status: Literal["confirmed", "refuted"] | None
    status: Literal["ok", "error"]
    confidence: ScoreMicro
    reported: ScoreMicro | None
    source: Literal["reported", "verified", "derived", "missing", "error"]
    critique: ScoreMicro | None
    critic: Literal["model", "rules"] | None
    defects: tuple[FoundDefect, ...]
    critique_tokens: Count
    repairs: Count
    finding: _Line
    result: BlobAddress
    tools: tuple[str, ...]
    skills: tuple[str, ...]
    cache_hits: Count
    refused: tuple[Name, ...]
    child: Name | None
    note: _Line


class BudgetReserved(Event):
    """Part of a loop's budget was reserved. `child` is the sub-manager's loop if it is for one."""

    type: Literal["BudgetReserved"] = "BudgetReserved"
    loop: Name
    reservation: Name
    amounts: BudgetAmounts
    child: Name | None


class BudgetSettled(Event):
    """A reservation was released and the actual amounts were charged, with the time since the last charge.

    `is_lost` is true for an attempt that was killed, whose whole reservation is charged.
    """

    type: Literal["BudgetSettled"] = "BudgetSettled"
    loop: Name
    reservation: Name
    amounts: BudgetAmounts
    is_lost: bool


class StallSignalled(Event):
    """The stall detector judged an iteration whose workers have all returned. `output` is what it compared."""

    type: Literal["StallSignalled"] = "StallSignalled"
    loop: Name
    iteration: Count
    signal: Literal["ok", "warn", "switch_strategy", "stop"]
    confidence: ScoreMicro
    output: BlobAddress
    similarity: ScoreMicro
    confidence_flat: bool
    outputs_alike: bool


class StrategySwitched(Event):
    """The manager is told to follow another strategy from here on, and the stall detector's window begins anew."""

    type: Literal["StrategySwitched"] = "StrategySwitched"
    loop: Name
    iteration: Count
    strategy: Strategy


class CompletionRejected(Event):
    """A completion gate rejected a COMPLETE, and why. The loop goes on."""

    type: Literal["CompletionRejected"] = "CompletionRejected"
    loop: Name
    iteration: Count
    gate: Name
    why: _Line


class EscalationAsked(Event):
    """The loop waits for the answer of a person or its parent. Time until the answer is not charged."""

    type: Literal["EscalationAsked"] = "EscalationAsked"
    loop: Name
    iteration: Count
    question: _Line


class EscalationAnswered(Event):
    """A person or the parent answered; the manager sees the answer in every prompt from here on."""

    type: Literal["EscalationAnswered"] = "EscalationAnswered"
    loop: Name
    answer: Annotated[str, Field(min_length=1, max_length=1_000)]


class ToolForged(Event):
    """A worker wrote a tool that passed every check. A further one of the same name is a new version."""

    type: Literal["ToolForged"] = "ToolForged"
    loop: Name
    iteration: Count
    worker: Name
    tool: _ToolName
    version: Count
    code_hash: Digest
    content: BlobAddress
    line: _Line
    repairs: Count


class SkillSaved(Event):
    """A skill was written by a worker, or imported (`loop` null). A further one of the same name is a new version."""

    type: Literal["SkillSaved"] = "SkillSaved"
    loop: Name | None
    iteration: Count
    worker: Name
    skill: _SkillName
    version: Count
    content: BlobAddress
    line: _Line
    words: Count


class LoopClosed(Event):
    """A loop ended, and why. One without this event goes on when it is resumed."""

    type: Literal["LoopClosed"] = "LoopClosed"
    loop: Name
    status: LoopStatus
    reason: _Line
    confidence: ScoreMicro
    result: BlobAddress
