"""The gate: frozen benchmarks, opened evaluations, verdicts with every number that decided them."""

from __future__ import annotations

from typing import Literal

from .event import Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .memory import Artifact
from .plans import Template

Decision = Literal["promote", "hold", "void"]


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
    """Every number the gate uses. The defaults are the seeds' own gate; shares and scores are in millionths."""

    min_mean_delta: Micro = 20_000
    min_prob_improvement: ScoreMicro = 950_000
    min_win_rate: ScoreMicro = 500_000
    regression_tolerance: ScoreMicro = 50_000
    max_regressions: Count = 0
    max_cost_ratio: Micro = 1_500_000
    max_missing: ScoreMicro = 50_000
    bootstrap_samples: Count = 2_000
    rng_seed: Whole = 0

    @classmethod
    def seeds(cls) -> Rules:
        """The gate of the seed documents: paired bootstrap, margin, significance, regressions, cost budget."""
        return cls()


class Interval(FrozenModel):
    """A 95 % interval in millionths."""

    low: Micro
    high: Micro


class ArmSummary(FrozenModel):
    """One arm over the sealed instances: mean score, runs passed, and what it cost (None: unknown)."""

    artifact: Artifact
    runs: Count
    passed: Count
    mean_score: Micro
    success: Interval
    cost: Count | None


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
    """Two artifacts will play a benchmark under these rules."""

    type: Literal["EvaluationOpened"] = "EvaluationOpened"
    evaluation: Name
    benchmark: Name
    benchmark_digest: Digest
    champion: Artifact
    challenger: Artifact
    rules: Rules


class VerdictReached(Event):
    """The verdict of an evaluation; a promotion is appended together with it."""

    type: Literal["VerdictReached"] = "VerdictReached"
    evaluation: Name
    verdict: Verdict
