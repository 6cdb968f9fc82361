"""The gate: frozen benchmarks, opened evaluations, verdicts with every number that decided them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .memory import Artifact
from .plans import Template

Decision = Literal["promote", "hold", "void"]

CostBasis = Literal["all_pairs", "passed_pairs"]
"""Over which pairs costs are compared: all of them, or only those that both arms passed (like work against like)."""


class BenchmarkTask(FrozenModel):
    """One instance: a template at a seed, visible or sealed."""

    template: Name
    env_seed: Whole
    is_sealed: bool


class BenchmarkFrozen(Event):
    """Tasks x seeds that both arms will play; `digest` is over environment, templates, tasks and repeats."""

    type: Literal["BenchmarkFrozen"] = "BenchmarkFrozen"
    benchmark: Name
    environment: Name
    templates: tuple[Template, ...]
    tasks: tuple[BenchmarkTask, ...]
    repeats: Count
    digest: Digest


class Rules(FrozenModel):
    """Every number the gate uses; shares and scores are in millionths.

    The defaults are the seeds' numbers with costs compared over pairs that both arms passed: an arm that fails early is
    cheap, and a challenger is not charged for work that the champion left undone. `seeds()` compares all pairs.
    """

    min_mean_delta: Micro = 20_000
    min_prob_improvement: ScoreMicro = 950_000
    min_win_rate: ScoreMicro = 500_000
    regression_tolerance: ScoreMicro = 50_000
    max_regressions: Count = 0
    max_cost_ratio: Micro = 1_500_000
    cost_basis: CostBasis = "passed_pairs"
    max_missing: ScoreMicro = 50_000
    bootstrap_samples: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    rng_seed: Whole = 0

    @classmethod
    def seeds(cls) -> Rules:
        """The gate of the seed documents: paired bootstrap, margin, significance, regressions, cost budget."""
        return cls(cost_basis="all_pairs")


class Interval(FrozenModel):
    """A 95 % interval in millionths."""

    low: Micro
    high: Micro


class ArmSummary(FrozenModel):
    """One arm over the sealed pairs: mean score (None: no pair), runs passed, and costs in micro-dollars.

    `cost` is of all its runs, `compared_cost` of those that the rules' cost basis compares; None is unknown.
    """

    artifact: Artifact
    runs: Count
    passed: Count
    mean_score: Micro | None
    success: Interval
    cost: Count | None
    compared_cost: Count | None


class Verdict(FrozenModel):
    """What was decided and every number it was decided by. Deltas and probabilities are in millionths.

    `void` means the arms are not comparable; then the numbers that could not be computed are None.
    """

    decision: Decision
    reasons: tuple[str, ...]
    benchmark: Digest
    rules: Rules
    champion: ArmSummary
    challenger: ArmSummary
    pairs: Count
    missing: Count
    mean_delta: Micro | None
    interval: Interval | None
    prob_improvement: ScoreMicro | None
    win_rate: ScoreMicro | None
    regressions: tuple[Name, ...]


class EvaluationOpened(Event):
    """Two artifacts will play a benchmark under these rules, both with one `executor` (None: plans over HTTP)."""

    type: Literal["EvaluationOpened"] = "EvaluationOpened"
    evaluation: Name
    benchmark: Name
    benchmark_digest: Digest
    champion: Artifact
    challenger: Artifact
    rules: Rules
    executor: Annotated[Name | None, Field(exclude_if=lambda executor: executor is None)] = None


class VerdictReached(Event):
    """The verdict of an evaluation; a promotion is appended together with it."""

    type: Literal["VerdictReached"] = "VerdictReached"
    evaluation: Name
    verdict: Verdict
