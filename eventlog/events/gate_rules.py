"""The parameters of the gate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .event import Count, FrozenModel, Micro, ScoreMicro, Whole

CostBasis = Literal["all_pairs", "passed_pairs"]
"""The pairs over which costs are compared: all of them, or only those that both arms passed (equal work done)."""

Test = Literal["group_sequential", "sign_flip", "e_process", "bootstrap"]
"""The test that decides: a paired randomisation test at planned looks, or of a fixed number of instances, an e-process
that may stop early, or the bootstrap of the seed documents."""

Unit = Literal["instance", "seed"]
"""The unit that counts as independent: every instance, or every seed, over the templates that share it."""

RegressionMeasure = Literal["passed", "score"]
"""By what fresh repeats confirm a regression: the number of passed runs, or their scores."""

_LOOKS = (200_000, 400_000, 600_000, 800_000, 1_000_000)
_FUTILITY = (-300_000, 200_000, 700_000, 1_200_000)
"""Least sums of differences, in standard deviations under random signs, to play on after each look but the last."""

_GAMMA = -2_000_000


class Rules(FrozenModel):
    """Every parameter of the gate; shares, scores and probabilities are in millionths.

    Void if there are fewer than `min_pairs` sealed units, if more than `max_missing` of the (instance, repeat)
    pairs are missing, or if missing pairs differ between the arms with p below `max_missing_p`. Promote if `test`
    rejects, the mean difference is at least `min_mean_delta`, costs are at most `max_cost_ratio` times the champion's
    over the pairs of `cost_basis`, and `confirm_repeats` fresh repeats confirm no regression at `confirm_p`. A test is
    exact if that takes at most `max_exact` sums; otherwise it makes `draws_per_alpha` / alpha random draws, seeded by
    `rng_seed`. `bootstrap_samples` is the number of samples for the interval.

    `looks` are the shares of units at which a group sequential test looks, the last one all of them; it spends alpha as
    Hwang, Shih and DeCani do with gamma = `spending`, and stops where the sum of differences lies below `futility`
    standard deviations (one bound for each look but the last). `family_p` is shared by all templates: fresh repeats of
    one that looks worse veto a promotion at that p (0: no veto). Lost runs are played again at most `replays` times.
    `pass_budget` bounds the challenger's cost of a passed run, in micro-dollars, where no pair was passed by both arms
    (0: unbounded). With `curtails`, confirming repeats stop where no further one can change the decision. With
    `charges_losses`, places that lost a run are charged to their arm in the test. An instance looks worse, and is
    confirmed as a regression, only where the challenger's mean score is lower by more than `tolerated_loss`.

    Defaults are those of the first design, which the rules of older evaluations leave out; `Rules.default()` has the
    present one. The last four parameters belong only to the bootstrap of the seed documents.
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
    unit: Annotated[Unit, Field(exclude_if=lambda unit: unit == "instance")] = "instance"
    looks: Annotated[tuple[ScoreMicro, ...], Field(exclude_if=lambda looks: not looks)] = ()
    spending: Annotated[Micro, Field(ge=-20_000_000, le=20_000_000, exclude_if=lambda gamma: not gamma)] = 0
    futility: Annotated[tuple[Micro, ...], Field(exclude_if=lambda bounds: not bounds)] = ()
    family_p: Annotated[ScoreMicro, Field(exclude_if=lambda p: not p)] = 0
    regression_by: Annotated[RegressionMeasure, Field(exclude_if=lambda measure: measure == "passed")] = "passed"
    replays: Annotated[int, Field(ge=0, le=10, exclude_if=lambda replays: not replays)] = 0
    pass_budget: Annotated[Count, Field(exclude_if=lambda budget: not budget)] = 0
    curtails: Annotated[bool, Field(exclude_if=lambda curtails: not curtails)] = False
    charges_losses: Annotated[bool, Field(exclude_if=lambda charges: not charges)] = False
    tolerated_loss: Annotated[ScoreMicro, Field(exclude_if=lambda loss: not loss)] = 0

    @classmethod
    def seeds(cls) -> Rules:
        """The gate of the seed documents: paired bootstrap, margin, significance, regressions, cost budget."""
        return cls(test="bootstrap", min_pairs=1, max_missing_p=0, cost_basis="all_pairs")

    @classmethod
    def default(cls, test: Test = "group_sequential") -> Rules:
        """The rules of new evaluations with this test; the bootstrap brings the gate of the seed documents."""
        if test == "bootstrap":
            return cls.seeds()
        fixed = cls(
            test=test,
            max_missing_p=2_000,
            unit="seed",
            family_p=50_000,
            regression_by="score",
            replays=2,
            pass_budget=1_000_000,
            curtails=True,
            charges_losses=True,
            tolerated_loss=50_000,
        )
        if test != "group_sequential":
            return fixed
        sequential = {"looks": _LOOKS, "spending": _GAMMA, "futility": _FUTILITY, "draws_per_alpha": 200}
        return fixed.model_copy(update=sequential)
