"""The gate: frozen benchmarks, opened evaluations, and verdicts with every number that decided them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .event import BlobAddress, Count, Digest, Event, FrozenModel, Micro, Name, ScoreMicro, Whole
from .gate_rules import Rules
from .memory import Artifact

Decision = Literal["promote", "hold", "void"]

LookOutcome = Literal["continue", "reject", "futile", "end"]
"""After a look: play on, enough evidence, too little to play on, or the last look without enough."""

Pico = Annotated[int, Field(ge=0, le=10**12)]
"""A probability in units of 10^-12, rounded up."""


class BenchmarkTemplate(FrozenModel):
    """A task of a benchmark, with a budget of `max_steps`. Its plan is made once for each evaluation, for both arms.

    With `one_answer` its right answer is the same at every seed: its seeds are repeats of one task.
    """

    template_id: Name
    cluster: Name
    oracle_task_id: Name
    instruction: str
    max_steps: Count
    one_answer: Annotated[bool, Field(exclude_if=lambda is_one: not is_one)] = False


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
    """A screened instance played again: runs and passes of both arms, one-sided p, and the conclusion.

    The p is Fisher's, or that of an exact permutation of scores; then `champion_score` and `challenger_score` are the
    summed scores.
    """

    instance: Name
    champion_runs: Count
    champion_passed: Count
    challenger_runs: Count
    challenger_passed: Count
    p_value: Pico
    is_regression: bool
    champion_score: Annotated[Micro | None, Field(exclude_if=lambda score: score is None)] = None
    challenger_score: Annotated[Micro | None, Field(exclude_if=lambda score: score is None)] = None


class FamilyCheck(FrozenModel):
    """A template whose mean difference was below zero, played again: one-sided p over its instances, and the outcome.

    Runs and summed scores (in millionths) of its fresh repeats, in both arms.
    """

    template: Name
    instances: Count
    champion_runs: Count
    challenger_runs: Count
    champion_score: Micro
    challenger_score: Micro
    p_value: Pico
    is_worse: bool


class Look(FrozenModel):
    """One look at the evidence: after so many units and runs, the p of all looks so far against the alpha spent so far.

    `number` counts from 1 `of` all looks. `p_value` and `boundary` are in 10^-12. Only a last look ends an evaluation
    without enough evidence (`end`); `futile` ends it earlier.
    """

    number: Annotated[int, Field(ge=1, le=1_000)]
    of: Annotated[int, Field(ge=1, le=1_000)]
    units: Count
    p_value: Pico
    boundary: Pico
    outcome: LookOutcome


class Verdict(FrozenModel):
    """The decision, and every number behind it. Deltas and probabilities are in millionths, p-values in 10^-12.

    `void` means that the arms are not comparable; numbers that could not be computed are then None. `pairs` counts
    sealed instances, `missing` the (instance, repeat) pairs that lack an arm. `alpha` is this test's share,
    `alpha_spent` the total spent on the benchmark including it. `draws` is None for an exact test; `looked_at` is the
    number of instances the test saw, `e_value` the final value of an e-process in millionths. `screened` instances
    looked worse; `regressions` are those confirmed (under the bootstrap: all beyond the tolerance).

    `units` is the number of independent units where instances share seeds (None: every instance is one). `looks` are
    those of a group sequential test, `families` the templates that looked worse, `lost` the runs that the platform lost
    in the champion's and the challenger's arm, counted where lost runs are played again, `interrupted` those whose
    process ended before them (None: there are none). Of the templates in `one_answer` the verdict claims nothing but
    these tasks: their seeds are repeats.

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
    units: Annotated[Count | None, Field(exclude_if=lambda units: units is None)] = None
    lost: Annotated[tuple[Count, Count] | None, Field(exclude_if=lambda lost: lost is None)] = None
    looks: Annotated[tuple[Look, ...], Field(exclude_if=lambda looks: not looks)] = ()
    families: Annotated[tuple[FamilyCheck, ...], Field(exclude_if=lambda families: not families)] = ()
    one_answer: Annotated[tuple[Name, ...], Field(exclude_if=lambda names: not names)] = ()
    interrupted: Annotated[tuple[Count, Count] | None, Field(exclude_if=lambda both: both is None)] = None


class TaskPlan(FrozenModel):
    """The plan from which both arms start on a template; the blob holds its steps."""

    template: Name
    plan: BlobAddress


class EvaluationOpened(Event):
    """Two artifacts will play a benchmark under these rules, both with the same `executor` (None: plans over HTTP).

    `model` is the executor's model, or what an agent is (None: it names none, or the log is of before it was recorded).

    `challenge` is the evaluation's number on the benchmark, counted from 1. Opening the evaluation spends `alpha`,
    whatever its verdict. `suite` holds the plan of every template, for executors that follow plans. `suite_version` is
    the suite, with its version in the log, by whose operations steps are checked (None: that of the time of opening).
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
    suite_version: Annotated[Name | None, Field(exclude_if=lambda suite: suite is None)] = None
    model: Annotated[Name | None, Field(exclude_if=lambda model: model is None)] = None


class EvaluationLooked(Event):
    """An evaluation looked at its evidence: the look, runs played so far, and the most that its arms may need.

    From here on its alpha is spent even if its verdict is void.
    """

    type: Literal["EvaluationLooked"] = "EvaluationLooked"
    evaluation: Name
    benchmark: Name
    look: Look
    runs: Count
    most_runs: Count


class AlphaReturned(Event):
    """The alpha of an evaluation that ended void before anybody looked at an outcome; appended with its verdict."""

    type: Literal["AlphaReturned"] = "AlphaReturned"
    evaluation: Name
    benchmark: Name
    alpha: ScoreMicro


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
