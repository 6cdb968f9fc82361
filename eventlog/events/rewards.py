"""Rewards: what a channel said of a run, its terms kept apart, in micro-units."""

from __future__ import annotations

from typing import Literal

from .event import Count, Event, FrozenModel, Micro, Name, ScoreMicro


class RewardTerms(FrozenModel):
    """The terms of `R = score - lambda * cost`: micro-score, and micro-score a dollar."""

    score: ScoreMicro
    lambda_per_dollar: Micro
    penalty: Micro | None


class RewardGraded(Event):
    """A run was graded. `cost` is in micro-dollars; where it is unknown, so is `value`."""

    type: Literal["RewardGraded"] = "RewardGraded"
    run: Name
    group: Name
    channel: Literal["oracle"]
    version: Name
    score: ScoreMicro
    passed: bool
    reasons: tuple[str, ...]
    terms: RewardTerms
    prices: Count
    cost: Count | None
    value: Micro | None
