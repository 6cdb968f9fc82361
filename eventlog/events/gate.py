"""The gate: frozen benchmarks, opened evaluations, verdicts with every number that decided them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .memory import Artifact

Decision = Literal["promote", "hold", "void"]

CostBasis = Literal["all_pairs", "passed_pairs"]
"""Over which pairs costs are compared: all of them, or only those that both arms passed (like work against like)."""


Test = Literal["sign_flip", "e_process", "bootstrap"]
"""What decides: a paired randomisation test of a fixed number of instances, an e-process that may stop early, or the
bootstrap of the seed documents."""

Pico = Annotated[int, Field(ge=0, le=10**12)]
"""A probability in units of 10^-12, rounded up."""


class BenchmarkTemplate(FrozenModel):
    """A task of a benchmark. It carries no plan: that is made once for an evaluation, the same for both arms.

    `max_steps` is its budget.
    """

    template_id: Name
    cluster: Name
    oracle_task_id: Name
    instruction: str
    max_steps: Count


class BenchmarkTask(FrozenModel):
    """One instance: a template at a seed, visible or sealed."""

    template: Name
    env_seed: Whole
    is_sealed: bool


class BenchmarkFrozen(Event):
    """Tasks x seeds that both arms will play, and how much alpha may be spent on them, by how many challengers.

    `alpha` is the chance of any false promotion over all `challengers`. `successor_of` is the benchmark whose place
    this one takes. `digest` is over environment, templates, tasks, repeats, alpha and challengers.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["BenchmarkFrozen"] = "BenchmarkFrozen"
    benchmark: Name
    environment: Name
    templates: tuple[BenchmarkTemplate, ...]
    tasks: tuple[BenchmarkTask, ...]
    repeats: Count
    alpha: ScoreMicro
    challengers: Annotated[int, Field(ge=1, le=1_000)]
    successor_of: Name | None
    digest: Digest


class Rules(FrozenModel):
    """Every number the gate uses; shares, scores and probabilities are in millionths.

    `test` decides. Void: fewer than `min_pairs` sealed instances, a larger share than `max_missing` of the (instance,
    repeat) pairs missing, or missing pairs that differ between the arms with a p below `max_missing_p`. Promote: the
    test, a mean difference of `min_mean_delta`, costs at most `max_cost_ratio` times the champion's over the pairs of
    `cost_basis`, and no regression that `confirm_repeats` fresh repeats confirm at `confirm_p`. A test is exact where
    that takes at most `max_exact` sums, else it takes `draws_per_alpha` / alpha draws from the stream of `rng_seed`.
    `bootstrap_samples` are those of the interval.

    The others belong to the bootstrap of the seed documents alone.
    """

    test: Test = "sign_flip"
    min_pairs: Count = 40
    max_missing: ScoreMicro = 50_000
    max_missing_p: ScoreMicro = 50_000
    min_mean_delta: Micro = 20_000
    max_cost_ratio: Micro = 1_500_000
    cost_basis: CostBasis = "passed_pairs"
    confirm_repeats: Count = 12
    confirm_p: ScoreMicro = 50_000
    draws_per_alpha: Annotated[int, Field(ge=1, le=1_000)] = 20
    max_exact: Count = 1_000_000
    bootstrap_samples: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    rng_seed: Whole = 0
    min_prob_improvement: ScoreMicro = 950_000
    min_win_rate: ScoreMicro = 500_000
    regression_tolerance: ScoreMicro = 50_000
    max_regressions: Count = 0

    @classmethod
    def seeds(cls) -> Rules:
        """The gate of the seed documents: paired bootstrap, margin, significance, regressions, cost budget."""
        return cls(test="bootstrap", min_pairs=1, max_missing_p=0, cost_basis="all_pairs")


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


class Stratum(FrozenModel):
    """The compared instances of one template, and the mean of their differences in millionths."""

    template: Name
    instances: Count
    mean_delta: Micro


class Visible(FrozenModel):
    """The visible pairs: reported, deciding nothing. Means in millionths."""

    instances: Count
    champion_mean: Micro
    challenger_mean: Micro


class Confirmation(FrozenModel):
    """A screened instance played again: runs and passes of both arms, one-sided Fisher p, and whether it regressed."""

    instance: Name
    champion_runs: Count
    champion_passed: Count
    challenger_runs: Count
    challenger_passed: Count
    p_value: Pico
    is_regression: bool


class Verdict(FrozenModel):
    """What was decided and every number it was decided by. Deltas and probabilities are in millionths, p in 10^-12.

    `void` means the arms are not comparable; then the numbers that could not be computed are None. `pairs` counts
    sealed instances, `missing` the (instance, repeat) pairs that lack an arm. `alpha` is what this test could spend,
    `alpha_spent` what was spent on the benchmark with it. `draws` is None for an exact test; `looked_at` is how many
    instances the test saw, `e_value` in millionths what an e-process had reached. `screened` instances looked worse;
    `regressions` are the confirmed ones (under the bootstrap: all beyond the tolerance).

    `interval`, `prob_improvement`, `win_rate`, wins, ties, losses, `mcnemar`, `power`, `pairs_needed` (instances for a
    power of 0.8 at this difference), `strata` and `visible` are reported and decide nothing, but for the bootstrap.
    """

    decision: Decision
    reasons: tuple[str, ...]
    benchmark: Digest
    rules: Rules
    champion: ArmSummary
    challenger: ArmSummary
    pairs: Count
    missing: Count
    missing_p: Pico | None
    alpha: ScoreMicro
    alpha_spent: ScoreMicro
    p_value: Pico | None
    draws: Count | None
    looked_at: Count | None
    e_value: Count | None
    mean_delta: Micro | None
    interval: Interval | None
    prob_improvement: ScoreMicro | None
    win_rate: ScoreMicro | None
    wins: Count | None
    ties: Count | None
    losses: Count | None
    mcnemar: Pico | None
    power: ScoreMicro | None
    pairs_needed: Count | None
    screened: tuple[Name, ...]
    confirmations: tuple[Confirmation, ...]
    regressions: tuple[Name, ...]
    strata: tuple[Stratum, ...]
    visible: Visible | None


class TaskPlan(FrozenModel):
    """The plan that both arms start from in a template; the blob holds its steps."""

    template: Name
    plan: BlobAddress


class EvaluationOpened(Event):
    """Two artifacts will play a benchmark under these rules, both with one `executor` (None: plans over HTTP).

    It is the benchmark's evaluation number `challenge`, counted from 1, and spends `alpha` by being opened, whatever
    comes of it. `suite` holds the plan of every template, for executors that follow one.
    """

    schema_version: ClassVar[int] = 2
    type: Literal["EvaluationOpened"] = "EvaluationOpened"
    evaluation: Name
    benchmark: Name
    benchmark_digest: Digest
    champion: Artifact
    challenger: Artifact
    rules: Rules
    challenge: Count
    alpha: ScoreMicro
    suite: tuple[TaskPlan, ...]
    executor: Annotated[Name | None, Field(exclude_if=lambda executor: executor is None)] = None


class VerdictReached(Event):
    """The verdict of an evaluation; a promotion is appended together with it."""

    schema_version: ClassVar[int] = 2
    type: Literal["VerdictReached"] = "VerdictReached"
    evaluation: Name
    verdict: Verdict
