"""Configuration of a delegation loop, which rides on LoopOpened. Fractions and confidences are millionths."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, FrozenModel, ScoreMicro

Strategy = Literal["decompose_finer", "simplify", "reframe", "escalate"]
"""The manager's instruction after a stall. escalate asks a person or the parent."""

Capability = Literal["network", "filesystem", "compute"]
"""Modules that a namespace of tools may import beyond the least. The sandbox has no network in any case."""

_FILE_NAME = r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,58}[A-Za-z0-9])?$"
"""The name of a file in a result: no path, and as names are read from a worker's result."""

_Window = Annotated[int, Field(ge=2, le=100)]
_Namespace = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class LoopLimits(FrozenModel):
    """The budget of a loop: six dimensions, and how much may run at a time. 0 allows nothing of that kind.

    `max_wall_time` is in seconds. `max_depth` is how many levels of sub-managers may stand below the first manager. The
    limits on sub-managers hold for the whole tree of a run.
    """

    max_loops: Count = 100
    max_total_workers: Count = 500
    max_total_tokens: Count = 10_000_000
    max_wall_time: Count = 3_600
    max_tool_calls: Count = 1_500
    max_depth: Annotated[int, Field(ge=0, le=10)] = 4
    max_concurrent_submanagers: Count = 3
    max_total_submanagers_per_run: Count = 6
    max_parallel_workers: Annotated[int, Field(ge=1, le=64)] = 16
    max_workers_per_iteration: Annotated[int, Field(ge=1, le=64)] = 6
    child_fraction: ScoreMicro = 300_000
    synthesis_threshold: ScoreMicro = 200_000


class HistoryConfig(FrozenModel):
    """The rolling summary: the last `full_results_window` iterations are shown in detail."""

    full_results_window: Annotated[int, Field(ge=1, le=50)] = 3


class StallDetectionConfig(FrozenModel):
    """The stall detector: two channels over a window of iterations, and the strategies to switch to, in order."""

    enabled: bool = True
    window: _Window = 3
    min_confidence_delta: ScoreMicro = 50_000
    max_similarity: ScoreMicro = 850_000
    oscillation_variance: ScoreMicro = 10_000
    oscillation_mean: ScoreMicro = 700_000
    strategy_switching: bool = True
    strategies: tuple[Strategy, ...] = ("decompose_finer", "simplify", "reframe", "escalate")


class EvaluationConfig(FrozenModel):
    """Thresholds of a confidence: from `accept` on it is accepted, from `retry` on refined, below `fail` it failed.

    If it `gates`, a COMPLETE is rejected while the last results are below `retry`, and fails the loop below `fail`.
    """

    accept: ScoreMicro = 800_000
    retry: ScoreMicro = 500_000
    fail: ScoreMicro = 200_000
    gates: bool = True


class CritiqueConfig(FrozenModel):
    """The critique of worker results and their repair.

    With the mode `model` a model judges results; where it gives no valid critique, or there is none, rules do. Critique
    and repair may spend `repair_budget_fraction` of the tokens. A category of defects is told to the manager after
    `defect_category_diagnose_threshold` iterations and ends the loop after `defect_category_hard_cap` (0: never); with
    `phase_aware_incomplete` what is incomplete counts by how much of the plan is done.
    """

    enabled: bool = True
    mode: Literal["model", "rules"] = "model"
    max_repair_attempts: Annotated[int, Field(ge=0, le=5)] = 2
    repair_budget_fraction: ScoreMicro = 150_000
    min_score_to_complete: ScoreMicro = 600_000
    defect_category_diagnose_threshold: Annotated[int, Field(ge=0, le=100)] = 3
    defect_category_hard_cap: Annotated[int, Field(ge=0, le=100)] = 5
    phase_aware_incomplete: bool = True


class PlanningConfig(FrozenModel):
    """Plans, diagnoses and the decision journal.

    After a worker below `diagnose_below` the manager has a diagnosis suggested (0: never).
    """

    enabled: bool = True
    max_subtasks: Annotated[int, Field(ge=1, le=50)] = 10
    diagnosis: bool = True
    max_hypotheses: Annotated[int, Field(ge=1, le=10)] = 3
    diagnose_below: ScoreMicro = 300_000
    decision_journal: bool = True
    journal_entries: Annotated[int, Field(ge=1, le=100)] = 10


class ToolsConfig(FrozenModel):
    """Tools that workers write. `timeout_ms` limits a call, `dry_run_ms` the probe before a tool is registered.

    `namespace_capabilities` are those of namespaces that have others than `capabilities`.
    """

    enabled: bool = True
    namespaces: tuple[_Namespace, ...] = ("dynamic",)
    capabilities: tuple[Capability, ...] = ("compute",)
    namespace_capabilities: dict[_Namespace, tuple[Capability, ...]] = Field(default_factory=dict)
    max_tools_per_worker: Annotated[int, Field(ge=0, le=50)] = 10
    max_total: Annotated[int, Field(ge=0, le=200)] = 50
    repair_attempts: Annotated[int, Field(ge=0, le=2)] = 2
    dry_run_ms: Annotated[int, Field(ge=100, le=60_000)] = 5_000
    timeout_ms: Annotated[int, Field(ge=100, le=60_000)] = 10_000
    memory_mb: Annotated[int, Field(ge=64, le=4_096)] = 512


class SkillsConfig(FrozenModel):
    """Skills that workers write. A shorter one than `min_words` is not kept."""

    enabled: bool = True
    min_words: Count = 30
    max_total: Annotated[int, Field(ge=0, le=500)] = 100


class SummaryConfig(FrozenModel):
    """False shows the manager no rolling summary: an ablation, for measurements."""

    enabled: bool = True


class CompletionConfig(FrozenModel):
    """Gates that judge a COMPLETE. After `max_rejected_completions` rejections for one reason the loop ends.

    With `file_gates` the files of the result are judged too; those of `required_outputs` must be there.
    """

    max_rejected_completions: Annotated[int, Field(ge=1, le=20)] = 2
    file_gates: bool = True
    required_outputs: tuple[Annotated[str, Field(pattern=_FILE_NAME)], ...] = ()
    required_fields: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()


class LoopConfig(FrozenModel):
    """The whole configuration of a loop. Every mechanism is on by default."""

    budget: LoopLimits = LoopLimits()
    history: HistoryConfig = HistoryConfig()
    summary: SummaryConfig = SummaryConfig()
    stall_detection: StallDetectionConfig = StallDetectionConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    critique: CritiqueConfig = CritiqueConfig()
    planning: PlanningConfig = PlanningConfig()
    tools: ToolsConfig = ToolsConfig()
    skills: SkillsConfig = SkillsConfig()
    completion: CompletionConfig = CompletionConfig()
    max_tokens: Annotated[int, Field(ge=64, le=100_000)] = 4_096
    temperature: Annotated[int, Field(ge=0, le=2_000_000)] = 200_000
    worker_rounds: Annotated[int, Field(ge=1, le=50)] = 15
    convergence: bool = True
