"""The gate: frozen benchmarks, opened evaluations, and verdicts with every number that decided them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .memory import Artifact

Decision = Literal["promote", "hold", "void"]

CostBasis = Literal["all_pairs", "passed_pairs"]
"""The pairs over which costs are compared: all of them, or only those that both arms passed (equal work done)."""


Test = Literal["sign_flip", "e_process", "bootstrap"]
"""The test that decides: a paired randomisation test of a fixed number of instances, an e-process that may stop early,
or the bootstrap of the seed documents."""

Pico = Annotated[int, Field(ge=0, le=10**12)]
"""A probability in units of 10^-12, rounded up."""


class BenchmarkTemplate(FrozenModel):
    """A task of a benchmark, with a budget of `max_steps`. Its plan is made once for each evaluation, for both arms."""

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
    """A benchmark was frozen: the tasks x seeds that both arms play, and the alpha that its challengers may spend.

    `alpha` bounds the probability of any false promotion over all `challengers`. `successor_of` is the benchmark that
    this one replaces. `digest` is over environment, templates, tasks, repeats, alpha and challengers.
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
    """Every parameter of the gate; shares, scores and probabilities are in millionths.

    Void if there are fewer than `min_pairs` sealed instances, if more than `max_missing` of the (instance, repeat)
    pairs are missing, or if missing pairs differ between the arms with p below `max_missing_p`. Promote if `test`
    rejects, the mean difference is at least `min_mean_delta`, costs are at most `max_cost_ratio` times the champion's
    over the pairs of `cost_basis`, and `confirm_repeats` fresh repeats confirm no regression at `confirm_p`. A test is
    exact if that takes at most `max_exact` sums; otherwise it makes `draws_per_alpha` / alpha random draws, seeded by
    `rng_seed`. `bootstrap_samples` is the number of samples for the interval.

    All other parameters belong only to the bootstrap of the seed documents.
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

    `cost` covers all its runs, `compared_cost` those of the rules' cost basis; None means unknown.
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
    """Results of the visible pairs, which are reported but do not affect the decision. Means in millionths."""

    instances: Count
    champion_mean: Micro
    challenger_mean: Micro


class Confirmation(FrozenModel):
    """A screened instance played again: runs and passes of both arms, one-sided Fisher p, and the conclusion."""

    instance: Name
    champion_runs: Count
    champion_passed: Count
    challenger_runs: Count
    challenger_passed: Count
    p_value: Pico
    is_regression: bool


class Verdict(FrozenModel):
    """The decision, and every number behind it. Deltas and probabilities are in millionths, p-values in 10^-12.

    `void` means that the arms are not comparable; numbers that could not be computed are then None. `pairs` counts
    sealed instances, `missing` the (instance, repeat) pairs that lack an arm. `alpha` is this test's share,
    `alpha_spent` the total spent on the benchmark including it. `draws` is None for an exact test; `looked_at` is the
    number of instances the test saw, `e_value` the final value of an e-process in millionths. `screened` instances
    looked worse; `regressions` are those confirmed (under the bootstrap: all beyond the tolerance).

    `interval`, `prob_improvement`, `win_rate`, wins, ties, losses, `mcnemar`, `power`, `pairs_needed` (instances for a
    power of 0.8 at this difference), `strata` and `visible` are only reported, except that the bootstrap uses some.
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
    """The plan from which both arms start on a template; the blob holds its steps."""

    template: Name
    plan: BlobAddress


class EvaluationOpened(Event):
    """Two artifacts will play a benchmark under these rules, both with the same `executor` (None: plans over HTTP).

    `challenge` is the evaluation's number on the benchmark, counted from 1. Opening the evaluation spends `alpha`,
    whatever its verdict. `suite` holds the plan of every template, for executors that follow plans.
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


class SealedInspected(Event):
    """Somebody asked for the sealed figures of an evaluation while its benchmark could still judge.

    The next challenger may be chosen by what was seen, so the benchmark judges one challenger fewer, and `alpha`, the
    share of that one, is spent.
    """

    type: Literal["SealedInspected"] = "SealedInspected"
    benchmark: Name
    evaluation: Name
    alpha: ScoreMicro


class VerdictReached(Event):
    """The verdict of an evaluation; a promotion is appended together with it."""

    schema_version: ClassVar[int] = 2
    type: Literal["VerdictReached"] = "VerdictReached"
    evaluation: Name
    verdict: Verdict
